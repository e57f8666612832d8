// Staging memory that all sessions of a host share.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/os/fd.h"

namespace kfdcp {

/// One transfer's part of the host's staging memory, in pieces of equal size. Locks on bytes of a
/// file, of open file descriptions (F_OFD_SETLK), show who has which piece. No process keeps
/// account, and pieces of a killed one are free at once. Nothing is ever written to the file.
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
  using Range = std::pair<std::uint64_t, std::uint64_t>;  // begin, end

  bool lock(short type, std::uint64_t begin, std::uint64_t bytes) const;
  void unlock(std::uint64_t begin, std::uint64_t bytes) const;
  std::vector<Range> held_by_others(std::uint64_t begin, std::uint64_t end) const;
  std::uint32_t take();
  bool is_first();
  std::uint32_t share() const;

  const std::string path_;
  const Request request_;
  const UniqueFd file_;  // all locks go with it
  std::uint64_t ticket_ = 0;
  std::uint32_t granted_ = 0;
};

}  // namespace kfdcp
