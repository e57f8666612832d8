// Reading and writing a file without the page cache, where that is faster.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/os/fd.h"

namespace kfdcp {

/// A second description of an open file with O_DIRECT. A file system that refuses it, at once or
/// later, is read and written through the page cache, without a word: the bytes are the same. Any
/// thread may read and write at any time.
class DirectFile {
 public:
  /// `fd` is borrowed for the life of this; `access` is O_RDONLY or O_RDWR. With O_RDONLY,
  /// residency is looked up in the first `length` bytes.
  DirectFile(int fd, int access, std::uint64_t length = 0);

  /// Fills `out` from `offset`. Whole pages are read past the page cache unless it has most of
  /// them, so that disks get large requests and the cache of others stays. Cached pages are copied.
  /// Errors as read_exactly.
  void read(std::span<std::byte> out, std::uint64_t offset, const char* subject);

  /// Writes `parts` at `offset`; uses them up. Whole pages go past the page cache: the disk starts
  /// at once and not at the sync. Others go through it, and their write-back starts at once. Throws
  /// Error{io}.
  void write(std::span<iovec> parts, std::uint64_t offset, const char* subject);

  /// Bytes that went past the page cache so far.
  std::uint64_t direct_bytes() const { return direct_bytes_; }

 private:
  bool resident(std::uint64_t offset, std::size_t bytes) const;

  const int fd_;
  const UniqueFd direct_;
  Mapping view_;  // for residency alone: nothing is read through it
  std::atomic<bool> accepted_;
  std::atomic<std::uint64_t> direct_bytes_ = 0;
};

}  // namespace kfdcp
