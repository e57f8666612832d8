#include "core/drm/buffer_name.h"

#include "core/drm/dmabuf.h"
#include "core/drm/gem.h"
#include "core/os/error.h"

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

BufferName buffer_behind(int render_fd, int dmabuf) {
  const std::uint64_t bytes = dmabuf_bytes(dmabuf);
  const OwnHandle handle(render_fd, dmabuf);
  return {bytes, mmap_offset(render_fd, handle.number())};
}

}  // namespace kfdcp::drm
