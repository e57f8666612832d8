#include "core/copy/staging_claim.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>

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

}  // namespace

StagingClaim::StagingClaim(const std::string& path, const Request& request)
    : request_(request), file_(path) {
  if (request.total == 0 || request.wanted == 0 || request.transfers == 0) {
    throw Error(ErrorCode::protocol, "staging: a claim of nothing");
  }
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
    const std::optional<Range> found = file_.held_by_other(from, to);
    if (!found) continue;
    const auto [first, last] = *found;
    held.emplace_back(first, last);
    to_look.emplace_back(from, first);
    to_look.emplace_back(last, to);
  }
  return held;
}

std::uint32_t StagingClaim::poll() {
  if (granted_ > 0 || !file_.lock(F_WRLCK, kLook, 1)) return granted_;
  struct Look {
    const StagingClaim& claim;
    ~Look() {
      try {
        claim.file_.unlock(kLook, 1);
      } catch (...) {
        // The lock ends with the file at the latest.
      }
    }
  } const look{*this};
  if (!is_first()) return 0;
  granted_ = take();
  if (granted_ > 0) file_.unlock(ticket_, 1);
  return granted_;
}

/// Takes a ticket, the first time.
bool StagingClaim::is_first() {
  const std::vector<Range> others = held_by_others(kTickets, kTicketsEnd);
  if (ticket_ == 0) {
    std::uint64_t next = kTickets;
    for (const auto& [begin, end] : others) next = std::max(next, end);
    if (!file_.lock(F_WRLCK, next, 1) || !file_.lock(F_RDLCK, kSessions + request_.session, 1)) {
      throw Error(ErrorCode::io, file_.path() + ": locked by something else", EAGAIN);
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
    if (!used[at] && file_.lock(F_WRLCK, at, 1)) ++taken;
  }
  return taken;
}

}  // namespace kfdcp
