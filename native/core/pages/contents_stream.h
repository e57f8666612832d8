// Pages files of one checkpoint on their way to another host, while they are made. A stream is
// records; each has bytes of one file and their place in it, in the order in which they were
// written. The last record has the totals. Normative text: docs/image-format.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "core/os/fd.h"
#include "core/pages/pages_sink.h"

namespace kfdcp {

/// The end of a stream that writers have. Any thread.
class ContentsSender {
 public:
  /// `fd`: a pipe, FIFO or socket that nobody else writes to. It does not block from now on.
  explicit ContentsSender(UniqueFd fd);
  ~ContentsSender();

  /// For the pages file of process ordinal `process` on GPU ordinal `gpu`, both below 2^16. Its
  /// writes wait as long as the reader is slower. They throw Error{io} when it has gone, and
  /// Error{cancelled} after stop(). This outlives it.
  std::unique_ptr<PagesSink> file(std::uint32_t process, std::uint32_t gpu);
  /// The totals, when all files are written. Throws as writes do.
  void finish();
  /// Ends all waits.
  void stop() { stopped_ = true; }
  /// Bytes of pages files that the reader, or the pipe, has taken.
  std::uint64_t bytes() const { return bytes_; }

 private:
  class Sink;
  void send(std::span<iovec> parts);

  const UniqueFd fd_;
  std::mutex mutex_;  // for a whole record
  std::uint32_t files_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<bool> stopped_ = false;
  bool broken_ = false;  // in the middle of a record: nothing may follow
};

struct ReceiveLimits {
  std::uint32_t files;
  std::uint64_t bytes;  // of all files
};

struct ReceivedContents {
  std::uint32_t files = 0;
  std::uint64_t bytes = 0;
};

/// Makes the files of a stream in the directory open as `directory`, by their names in an image
/// directory. `progress` gets the bytes so far. Throws Error{corrupt} for what is no whole stream,
/// Error{unsupported} beyond `limits`, Error{io} (EEXIST, ENOSPC), Error{cancelled}. Files stay
/// then.
ReceivedContents receive_contents(int fd, int directory, const ReceiveLimits& limits,
                                  std::stop_token stop, std::atomic<std::uint64_t>& progress);

}  // namespace kfdcp
