// One BO shared by two GPU processes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/fd.h"
#include "dma.h"
#include "holding.h"
#include "pattern.h"
#include "runtime.h"

namespace lab {

/// A child with a ROCr of its own. It imports the BO it is sent and then works on it when it is
/// told to.
class Peer {
 public:
  /// Forks. Only before ROCr is initialised and before there are threads. Throws Error{io}.
  Peer(std::uint64_t seed, std::chrono::milliseconds limit);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Makes the peer import the BO of `dmabuf`. Throws Error{gpu} with the peer's reason, or when it
  /// does not answer in time.
  void import(const kfdcp::UniqueFd& dmabuf) const;
  /// Makes the peer verify that the BO holds `generation` and write the next one. Throws as
  /// import() does.
  void advance(std::uint32_t generation) const;

 private:
  void receive_reply() const;

  const std::chrono::milliseconds limit_;
  kfdcp::UniqueFd socket_;
  pid_t pid_ = -1;
};

/// --share: a VRAM BO of 4 MiB that `peer` has imported; no dma-buf stays open. check() sends new
/// contents back and forth, so that two copies of the BO are told from one.
std::unique_ptr<Holding> hold_share(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                                    const Peer& peer);

}  // namespace lab
