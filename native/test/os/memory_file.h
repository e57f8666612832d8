// Files in memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <vector>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/os/file_io.h"

namespace kfdcp::test {

using Bytes = std::vector<std::byte>;

/// A memfd of `content`. Throws Error{io}.
inline UniqueFd memory_file(std::span<const std::byte> content = {}) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  if (!fd) throw io_error("memfd_create");
  iovec part = write_part(content);
  write_exactly(fd.get(), {&part, 1}, 0, "memory file");
  return fd;
}

/// All of a file. Throws Error{io}.
inline Bytes content_of(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0) throw io_error("lseek");
  Bytes content(static_cast<std::size_t>(size));
  read_exactly(fd, content, 0, "memory file");
  return content;
}

}  // namespace kfdcp::test
