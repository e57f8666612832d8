// Staging memory that all sessions of a host share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/os/lock_file.h"

namespace kfdcp {

/// One transfer's part of the host's staging memory, in pieces of equal size. Bytes of a LockFile
/// show who has which piece.
///
/// Claims are served in the order in which they came. Each gets free pieces, but not more than its
/// session's share: the total, divided by the sessions that have claims and by the transfers that
/// its own session runs at once. One that cannot have a single piece waits.
class StagingClaim {
 public:
  struct Request {
    std::uint32_t total;      // pieces on the host; at least 1
    std::uint32_t wanted;     // pieces; at least 1
    std::uint32_t transfers;  // that the session runs at once; at least 1
    std::uint32_t session;    // its pid
  };

  /// Asks for nothing yet. The file is made if it is missing. Throws Error{io}; Error{protocol} for
  /// a request of nothing.
  StagingClaim(const std::string& path, const Request& request);

  /// Pieces that are held, from the first call that found some; 0: others come first, nothing is
  /// free, or another process looks at this moment. Throws Error{io}.
  std::uint32_t poll();

 private:
  using Range = LockFile::Range;

  std::vector<Range> held_by_others(std::uint64_t begin, std::uint64_t end) const;
  std::uint32_t take();
  bool is_first();
  std::uint32_t share() const;

  const Request request_;
  const LockFile file_;
  std::uint64_t ticket_ = 0;
  std::uint32_t granted_ = 0;
};

}  // namespace kfdcp
