#include "core/copy/staging_claim.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "core/os/error.h"

namespace kfdcp {
namespace {

// Places in the file: the pieces, from 0 on; one byte that a looking process locks; one byte for
// each session with a claim, by its pid, locked for reading by all of its claims; tickets of
// waiting claims.
constexpr std::uint64_t kLook = 1ull << 40;
constexpr std::uint64_t kSessions = 2ull << 40;
constexpr std::uint64_t kSessionsEnd = kSessions + (1ull << 32);
constexpr std::uint64_t kTickets = 3ull << 40;
constexpr std::uint64_t kTicketsEnd = 4ull << 40;

struct flock lock_of(short type, std::uint64_t begin, std::uint64_t bytes) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(begin);
  lock.l_len = static_cast<off_t>(bytes);
  return lock;
}

UniqueFd open_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw io_error(path);
  return file;
}

}  // namespace

StagingClaim::StagingClaim(const std::string& path, const Request& request)
    : path_(path), request_(request), file_(open_file(path)) {
  if (request.total == 0 || request.wanted == 0 || request.transfers == 0) {
    throw Error(ErrorCode::protocol, "staging: a claim of nothing");
  }
}

bool StagingClaim::lock(short type, std::uint64_t begin, std::uint64_t bytes) const {
  struct flock wanted = lock_of(type, begin, bytes);
  if (::fcntl(file_.get(), F_OFD_SETLK, &wanted) == 0) return true;
  if (errno != EAGAIN && errno != EACCES) throw io_error(path_);
  return false;
}

void StagingClaim::unlock(std::uint64_t begin, std::uint64_t bytes) const {
  struct flock mine = lock_of(F_UNLCK, begin, bytes);
  if (::fcntl(file_.get(), F_OFD_SETLK, &mine) != 0) throw io_error(path_);
}

/// In no order.
std::vector<StagingClaim::Range> StagingClaim::held_by_others(std::uint64_t begin,
                                                              std::uint64_t end) const {
  std::vector<Range> held;
  std::vector<Range> to_look = {{begin, end}};
  while (!to_look.empty()) {
    const auto [from, to] = to_look.back();
    to_look.pop_back();
    if (from >= to) continue;
    // The kernel reports any lock in the range, not the first one.
    struct flock found = lock_of(F_WRLCK, from, to - from);
    if (::fcntl(file_.get(), F_OFD_GETLK, &found) != 0) throw io_error(path_);
    if (found.l_type == F_UNLCK) continue;
    const std::uint64_t first = std::max(from, static_cast<std::uint64_t>(found.l_start));
    const std::uint64_t last =
        found.l_len == 0 ? to
                         : std::min(to, static_cast<std::uint64_t>(found.l_start + found.l_len));
    held.emplace_back(first, last);
    to_look.emplace_back(from, first);
    to_look.emplace_back(last, to);
  }
  return held;
}

std::uint32_t StagingClaim::poll() {
  if (granted_ > 0 || !lock(F_WRLCK, kLook, 1)) return granted_;
  struct Look {
    const StagingClaim& claim;
    ~Look() {
      try {
        claim.unlock(kLook, 1);
      } catch (...) {
        // The lock ends with the file at the latest.
      }
    }
  } const look{*this};
  if (!is_first()) return 0;
  granted_ = take();
  if (granted_ > 0) unlock(ticket_, 1);
  return granted_;
}

/// Takes a ticket, the first time.
bool StagingClaim::is_first() {
  const std::vector<Range> others = held_by_others(kTickets, kTicketsEnd);
  if (ticket_ == 0) {
    std::uint64_t next = kTickets;
    for (const auto& [begin, end] : others) next = std::max(next, end);
    if (!lock(F_WRLCK, next, 1) || !lock(F_RDLCK, kSessions + request_.session, 1)) {
      throw Error(ErrorCode::io, path_ + ": locked by something else", EAGAIN);
    }
    ticket_ = next;
  }
  return std::ranges::all_of(others, [&](const Range& other) { return other.first > ticket_; });
}

std::uint32_t StagingClaim::share() const {
  std::uint32_t sessions = 1;
  const std::uint64_t own = kSessions + request_.session;
  for (const auto& [begin, end] : held_by_others(kSessions, kSessionsEnd)) {
    if (begin != own) ++sessions;
  }
  return std::max(1u, request_.total / sessions / request_.transfers);
}

/// Locks free pieces.
std::uint32_t StagingClaim::take() {
  std::vector<bool> used(request_.total, false);
  for (const auto& [begin, end] : held_by_others(0, request_.total)) {
    for (std::uint64_t at = begin; at < end; ++at) used[at] = true;
  }
  const std::uint32_t most = std::min(request_.wanted, share());
  std::uint32_t taken = 0;
  for (std::uint32_t at = 0; at < request_.total && taken < most; ++at) {
    if (!used[at] && lock(F_WRLCK, at, 1)) ++taken;
  }
  return taken;
}

}  // namespace kfdcp
