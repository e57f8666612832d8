#include "core/drm/dmabuf.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "core/drm/gem.h"
#include "core/os/device_call.h"

namespace kfdcp::drm {

namespace {

/// A handle for as long as this lives.
class OwnHandle {
 public:
  OwnHandle(int fd, int dmabuf) : fd_(fd), handle_(import_dmabuf(fd, dmabuf)) {}
  ~OwnHandle() {
    try {
      close_handle(fd_, handle_);
    } catch (const Error&) {
      // It goes with its file.
    }
  }
  OwnHandle(const OwnHandle&) = delete;
  OwnHandle& operator=(const OwnHandle&) = delete;

  std::uint32_t number() const { return handle_; }

 private:
  int fd_;
  std::uint32_t handle_;
};

}  // namespace

std::uint64_t dmabuf_bytes(int dmabuf) {
  const off_t end = ::lseek(dmabuf, 0, SEEK_END);
  if (end < 0 || ::lseek(dmabuf, 0, SEEK_SET) < 0) throw call_error("lseek of a dma-buf", errno);
  return static_cast<std::uint64_t>(end);
}

void check_content(std::uint64_t whole, std::uint64_t bytes, std::optional<std::uint64_t> offset) {
  const std::uint64_t start = offset.value_or(0);
  const bool inside = bytes != 0 && start <= whole && bytes <= whole - start;
  if (inside && (offset || bytes == whole)) return;
  throw Error(ErrorCode::gpu, "import of a buffer of " + std::to_string(bytes) + " bytes at " +
                                  std::to_string(start) + ": the dma-buf has " +
                                  std::to_string(whole));
}

BufferName buffer_behind(int render_fd, int dmabuf) {
  const std::uint64_t bytes = dmabuf_bytes(dmabuf);
  const OwnHandle handle(render_fd, dmabuf);
  return {bytes, mmap_offset(render_fd, handle.number())};
}

}  // namespace kfdcp::drm
