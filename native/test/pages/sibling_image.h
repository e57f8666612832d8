// Pages files of one image that refer to each other, in memory.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "core/pages/image_frames.h"
#include "core/pages/sibling_check.h"
#include "core/pages/sibling_files.h"
#include "test/os/memory_file.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {

inline constexpr std::uint32_t kSmallFrame = 1u << 20;

inline PagesOptions sibling_options(std::uint32_t process, std::uint32_t gpu,
                                    Compress compress = Compress::none) {
  PagesOptions out;
  out.compress = compress;
  out.share = true;
  out.frame_bytes = kSmallFrame;
  out.process = process;
  out.gpu = gpu;
  return out;
}

/// The files by their ordinals; what is not there is Error{corrupt}, as in a folder.
class SiblingImage {
 public:
  using Id = std::pair<std::uint32_t, std::uint32_t>;

  /// Written after those that are there.
  PagesSummary write(const PagesOptions& options, const std::vector<Content>& buffers,
                     const PagesReader* parent = nullptr) {
    UniqueFd fd = memory_file();
    PagesWriter writer(fd.get(), options, parent, frames.get());
    const PagesSummary summary = write_buffers(writer, options, buffers);
    files_[{options.process, options.gpu}] = std::move(fd);
    return summary;
  }
  void put(const Id& id, const Bytes& bytes) { files_[id] = memory_file(bytes); }
  void remove(const Id& id) { files_.erase(id); }
  Bytes bytes(const Id& id) const { return content_of(files_.at(id).get()); }
  std::unique_ptr<PagesReader> reader(const Id& id) const {
    return std::make_unique<PagesReader>(files_.at(id).get());
  }
  SiblingFiles::Open opener() const {
    return [this](std::uint32_t process, std::uint32_t gpu) -> SiblingFiles::File {
      const auto found = files_.find({process, gpu});
      if (found == files_.end()) throw Error(ErrorCode::corrupt, "no such file");
      return {UniqueFd(::dup(found->second.get())), {}};
    };
  }
  std::vector<SiblingCheck::Problem> problems() const {
    SiblingCheck check;
    for (const auto& [id, fd] : files_) check.add(PagesReader(fd.get()));
    return check.problems();
  }
  /// What a restore gets.
  std::vector<Content> read(const Id& id) const {
    const auto file = reader(id);
    SiblingFiles siblings(opener());
    std::vector<Content> out;
    for (const BufferEntry& buffer : file->buffers()) {
      Content content{buffer.id, {}};
      for (std::uint64_t i = 0; i < buffer.frames; ++i) {
        SiblingFiles::Frame frame{file.get(), buffer.first_frame + i,
                                  file->frame(buffer.first_frame + i)};
        if (frame.entry.codec == Codec::sibling) frame = siblings.find(frame.entry);
        Bytes part(frame.entry.raw);
        frame.file->read_frame(frame.index, part);
        content.bytes.insert(content.bytes.end(), part.begin(), part.end());
      }
      out.push_back(std::move(content));
    }
    return out;
  }

  std::unique_ptr<ImageFrames> frames = std::make_unique<ImageFrames>();

 private:
  std::map<Id, UniqueFd> files_;
};

inline Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

}  // namespace kfdcp::test
