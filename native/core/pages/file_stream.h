// A file on its way to another host, while it is still written: one zstd stream through a pipe.
// The reader goes on behind the writer, so that neither waits for the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>

#include "core/os/fd.h"

namespace kfdcp {

class FileSender {
 public:
  /// `file` is read from its start, whatever its position is. `pipe`: a pipe or socket that nobody
  /// else writes to. It does not block from now on.
  FileSender(UniqueFd file, UniqueFd pipe);

  /// Sends what is there and what is added, until end() and then the rest. Both are closed when it
  /// returns or throws. Returns the bytes of the file. Throws Error{io} when the reader has gone
  /// or the file cannot be read, Error{cancelled}. At most one call.
  std::uint64_t run(const std::stop_token& stop);
  /// Nobody writes the file any more. Any thread.
  void end() { ended_ = true; }
  /// Bytes of the file so far. Any thread.
  std::uint64_t bytes() const { return bytes_; }

 private:
  UniqueFd file_;
  UniqueFd pipe_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<bool> ended_ = false;
};

/// Writes the file of a stream from `pipe` at the position of `file`. Returns its
/// bytes. Throws Error{corrupt} for what is no whole stream, Error{unsupported} for
/// a file of more than `limit` bytes, Error{io} (ENOSPC), Error{cancelled}. What has arrived stays.
std::uint64_t receive_file(int pipe, int file, std::uint64_t limit, const std::stop_token& stop);

/// The same into the pipe `out`, for a reader that takes the file while it arrives. It is closed
/// when this returns or throws: the reader sees an end in either case. Throws Error{io} (EPIPE)
/// when the reader has gone.
std::uint64_t forward_file(int pipe, UniqueFd out, std::uint64_t limit,
                           const std::stop_token& stop);

}  // namespace kfdcp
