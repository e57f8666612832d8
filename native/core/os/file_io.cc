#include "core/os/file_io.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

#include "core/os/error.h"

namespace kfdcp {

void read_exactly(int fd, std::span<std::byte> out, std::uint64_t offset, const char* subject) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw io_error(subject);
    }
    if (got == 0) throw Error(ErrorCode::corrupt, std::string(subject) + ": file ends too early");
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::span<iovec> without_first(std::span<iovec> parts, std::size_t bytes) {
  while (!parts.empty() && bytes >= parts[0].iov_len) {
    bytes -= parts[0].iov_len;
    parts = parts.subspan(1);
  }
  if (bytes > 0) {
    parts[0].iov_base = static_cast<char*>(parts[0].iov_base) + bytes;
    parts[0].iov_len -= bytes;
  }
  return parts;
}

void write_exactly(int fd, std::span<iovec> parts, std::uint64_t offset, const char* subject) {
  parts = without_first(parts, 0);
  while (!parts.empty()) {
    const int count = static_cast<int>(std::min<std::size_t>(parts.size(), IOV_MAX));
    const ssize_t put = ::pwritev(fd, parts.data(), count, static_cast<off_t>(offset));
    if (put < 0) {
      if (errno == EINTR) continue;
      throw io_error(subject);
    }
    offset += static_cast<std::uint64_t>(put);
    parts = without_first(parts, static_cast<std::size_t>(put));
  }
}

iovec write_part(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace kfdcp
