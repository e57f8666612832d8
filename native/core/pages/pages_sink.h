// Where the bytes of a new pages file go.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>

namespace kfdcp {

/// Takes each byte of one pages file once: pieces that do not overlap, in any order, from any
/// thread.
class PagesSink {
 public:
  virtual ~PagesSink() = default;

  /// `parts`, in order, are the bytes from `offset` on; uses them up. Throws Error{io}.
  virtual void write(std::span<iovec> parts, std::uint64_t offset) = 0;
  /// Bytes that went past the page cache so far.
  virtual std::uint64_t direct_bytes() const { return 0; }
};

/// A file on this host, from the byte `begin` on. `fd` is borrowed. Throws Error{protocol} unless
/// it is an empty regular file.
std::unique_ptr<PagesSink> file_sink(int fd, std::uint64_t begin = 0);

/// All bytes go to `first`, and to `second` then.
std::unique_ptr<PagesSink> both_sinks(std::unique_ptr<PagesSink> first,
                                      std::unique_ptr<PagesSink> second);

}  // namespace kfdcp
