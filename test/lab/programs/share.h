// BOs shared by two GPU processes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "core/fd.h"
#include "dma.h"
#include "holding.h"
#include "pattern.h"
#include "runtime.h"

namespace lab {

/// A child with a ROCr of its own. It imports the BO it is sent, sends one of its own, and then
/// works on both when it is told to.
class Peer {
 public:
  /// Forks. Only before ROCr is initialised and before there are threads. Throws Error{io}.
  Peer(std::uint64_t seed, std::chrono::milliseconds limit);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Makes the peer import the BO of `dmabuf` and hold that descriptor. From then on this process
  /// holds one of the peer's BO. Throws Error{gpu} with the peer's reason, or when it does not
  /// answer in time.
  void exchange(const kfdcp::UniqueFd& dmabuf) const;
  /// Makes the peer verify that both BOs hold `generation` and write the next one. Throws as
  /// exchange() does.
  void advance(std::uint32_t generation) const;
  /// The dma-buf of the peer's BO. Nobody else has it open.
  int dmabuf() const { return place_.get(); }

 private:
  kfdcp::UniqueFd receive_reply() const;

  const std::chrono::milliseconds limit_;
  kfdcp::UniqueFd place_;
  kfdcp::UniqueFd socket_;
  pid_t pid_ = -1;
};

/// --share: a VRAM BO of 4 MiB that `peer` has imported, and one of the peer's. Each process holds
/// the dma-buf of the other's BO, with a number below that of /dev/kfd, and nobody that of its own.
/// check() sends new contents back and forth, so that two copies of a BO are told from one.
std::unique_ptr<Holding> hold_share(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                                    const Peer& peer);

}  // namespace lab
