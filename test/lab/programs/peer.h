// The other process of a shared BO, and what is said on the socket to it: fixed-size messages, one
// reply each.
#pragma once

#include <chrono>
#include <cstdint>

namespace lab {

struct PeerRequest {
  enum Verb : std::uint32_t { kImport, kAdvance };  // kImport carries a dma-buf in SCM_RIGHTS
  Verb verb;
  std::uint32_t generation;
};

struct PeerReply {
  char error[256];  // empty: done
};

/// Serves requests on `socket` until it closes or a stop signal comes. Returns the exit code of the
/// process.
int run_peer(int socket, std::uint64_t seed, std::chrono::milliseconds limit);

}  // namespace lab
