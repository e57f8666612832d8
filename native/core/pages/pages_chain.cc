#include "core/pages/pages_chain.h"

#include <string>
#include <utility>

#include "core/os/error.h"
#include "core/pages/codec_set.h"
#include "core/pages/frame_codec.h"
#include "core/pages/frame_identity.h"

namespace kfdcp {

namespace {

void require(bool ok, const std::string& reason) {
  if (!ok) throw Error(ErrorCode::corrupt, "pages file: " + reason);
}

/// Each names the root of the next one.
std::vector<ChainFile> fitting(std::vector<ChainFile> files) {
  require(!files.empty(), "no file in the chain");
  for (std::size_t i = 0; i + 1 < files.size(); ++i) {
    const Digest128 wanted = files[i].file->summary().parent;
    require(wanted != Digest128{}, "a parent too many in the chain");
    require(wanted == files[i + 1].file->summary().root, "another parent than its own");
  }
  return files;
}

/// The option of a writer that must have the codecs of these frames.
Compress codecs_of(const FrameChain& chain) {
  CodecSet codecs;
  for (std::uint64_t i = 0; i < chain.file().summary().frames; ++i) {
    codecs.add(chain.find(i).entry.codec);
  }
  return codecs.option();
}

}  // namespace

FrameChain::FrameChain(std::vector<ChainFile> files) : files_(fitting(std::move(files))) {}

bool FrameChain::is_open() const { return files_.back().file->summary().parent != Digest128{}; }

/// Follows references as far as the chain is long, and from there to a sibling.
SiblingFiles::Frame FrameChain::find(std::uint64_t index) const {
  const FrameEntry asked = file().frame(index);
  SiblingFiles::Frame source{&file(), index, asked};
  std::size_t at = 0;
  const auto sound = [index](bool ok, const char* reason) {
    require(ok, "frame " + std::to_string(index) + ": " + reason);
  };
  while (source.entry.codec == Codec::reference) {
    const std::uint64_t number = source.entry.offset;
    sound(++at < files_.size(), "is in the parent, which is missing");
    const PagesReader& parent = *files_[at].file;
    sound(number < parent.summary().frames, "refers to a frame that is not there");
    source = {&parent, number, parent.frame(number)};
    sound(source.entry.codec != Codec::zero && identity_of(source.entry) == identity_of(asked),
          "refers to another content");
  }
  if (source.entry.codec != Codec::sibling) return source;
  sound(files_[at].siblings != nullptr, "is in another file, which is missing");
  return files_[at].siblings->find(source.entry);
}

void FrameChain::check() const {
  for (std::uint64_t i = 0; i < file().summary().frames; ++i) (void)find(i);
}

std::uint64_t FrameChain::direct_bytes() const {
  std::uint64_t bytes = 0;
  for (const ChainFile& one : files_) {
    bytes += one.file->direct_bytes() + (one.siblings ? one.siblings->direct_bytes() : 0);
  }
  return bytes;
}

PagesSummary flatten_pages(const std::vector<ChainFile>& files, int fd, std::stop_token stop,
                           ImageFrames* image) {
  const FrameChain chain(files);
  require(!chain.is_open(), "its parent is missing");
  const PagesReader& file = chain.file();
  PagesOptions options = file.options();
  options.compress = codecs_of(chain);
  options.share = file.summary().digests;
  PagesWriter writer(fd, options, nullptr, options.share ? image : nullptr);
  FrameDecoder decoder;
  std::vector<std::byte> stored;
  std::vector<std::byte> content(options.frame_bytes);
  for (const BufferEntry& buffer : file.buffers()) {
    writer.begin_buffer(buffer.id, buffer.size);
    for (std::uint64_t i = buffer.first_frame; i < buffer.first_frame + buffer.frames; ++i) {
      if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "flattening: cancelled");
      const SiblingFiles::Frame source = chain.find(i);
      const FrameEntry& entry = source.entry;
      stored.resize(entry.stored);
      if (is_stored(entry.codec)) {
        source.file->read_stored(source.index, stored);
        decoder.decode(entry, source.index, stored, std::span(content).first(entry.raw));
      }
      const EncodedFrame frame{entry.codec, entry.checksum, stored, entry.digest};
      const PlacedFrame placed = writer.place(entry.raw, frame);
      writer.write({&placed, 1}, {&frame, 1});
    }
  }
  return writer.finish();
}

}  // namespace kfdcp
