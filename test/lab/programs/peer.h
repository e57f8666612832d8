// The other process of shared BOs, and what is said on the socket to it: fixed-size messages, one
// reply each.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/fd.h"

namespace lab {

inline constexpr std::size_t kSharedBytes = std::size_t{4} << 20;

struct PeerRequest {
  // kExchange and its reply carry a dma-buf in SCM_RIGHTS.
  enum Verb : std::uint32_t { kExchange, kAdvance };
  Verb verb;
  std::uint32_t generation;
};

struct PeerReply {
  char error[256];  // empty: done
};

/// Serves requests on `socket` until it closes or a stop signal comes; keeps the dma-buf it is sent
/// in `place`. Returns the exit code of the process.
int run_peer(int socket, kfdcp::UniqueFd place, std::uint64_t seed,
             std::chrono::milliseconds limit);

}  // namespace lab
