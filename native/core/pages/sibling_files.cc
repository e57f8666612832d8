#include "core/pages/sibling_files.h"

#include <fcntl.h>

#include <cerrno>

#include "core/os/error.h"
#include "core/pages/frame_identity.h"
#include "core/wire/image_files.h"

namespace kfdcp {

namespace {

void require(bool ok, const std::string& name, const char* reason) {
  if (!ok) throw Error(ErrorCode::corrupt, name + ": " + reason);
}

}  // namespace

SiblingFiles::SiblingFiles(Open open) : open_(std::move(open)) {}

SiblingFiles::Opened::Opened(File file) : fd(std::move(file.fd)), reader(fd.get(), file.range) {}

const PagesReader& SiblingFiles::reader(std::uint32_t process, std::uint32_t gpu) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Opened>& opened = files_[{process, gpu}];
  if (!opened) {
    File file = open_(process, gpu);
    const auto root = file.root;
    auto fresh = std::make_unique<Opened>(std::move(file));
    fresh->reader.expect(process, gpu, root);
    opened = std::move(fresh);
  }
  return opened->reader;
}

SiblingFiles::Frame SiblingFiles::find(const FrameEntry& reference) {
  const SiblingFrame at = SiblingFrame::unpacked(reference.offset);
  const std::string name = pages_file_name(at.process, at.gpu);
  const PagesReader& file = reader(at.process, at.gpu);
  require(at.frame < file.summary().frames, name, "lacks a frame that another file refers to");
  const FrameEntry entry = file.frame(at.frame);
  // This excludes chains and circles.
  require(is_stored(entry.codec), name, "does not store a frame that another file refers to");
  require(identity_of(entry) == identity_of(reference), name,
          "holds another content than a file that refers to it says");
  return {&file, at.frame, entry};
}

std::uint64_t SiblingFiles::direct_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [id, file] : files_) {
    if (file) bytes += file->reader.direct_bytes();
  }
  return bytes;
}

SiblingFiles::Open siblings_in(std::string folder) {
  return [folder = std::move(folder)](std::uint32_t process, std::uint32_t gpu) {
    const std::string name = pages_file_name(process, gpu);
    UniqueFd fd(::open((folder + "/" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd && errno == ENOENT) {
      throw Error(ErrorCode::corrupt, name + ": is missing, but another file refers to it");
    }
    if (!fd) throw io_error(name);
    return SiblingFiles::File{std::move(fd), {}, {}};
  };
}

}  // namespace kfdcp
