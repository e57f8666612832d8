#include "core/drm/dmabuf.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "core/os/device_call.h"

namespace kfdcp::drm {

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

}  // namespace kfdcp::drm
