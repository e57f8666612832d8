// GEM BOs on a render node that two processes share.
#pragma once

#include <cstdint>
#include <string>

#include "core/os/fd.h"
#include "pattern.h"
#include "peer.h"

namespace lab {

/// A BO that `peer` has imported by PRIME, and one of the peer's that is known by its dma-buf
/// alone: processes that import from each other cannot be saved. Each process holds the dma-buf of
/// the other's BO, with a number below that of the render node. Throws Error{gpu} or Error{io}.
class RenderShare {
 public:
  RenderShare(const std::string& node, const Pattern& pattern, const Peer& peer);

  /// Sends new contents back and forth, so that two copies of a BO are told from one. Throws
  /// Error{corrupt} when something is no longer what it was.
  void check();

 private:
  const Pattern& pattern_;
  const Peer& peer_;
  const kfdcp::UniqueFd file_;
  const std::uint32_t own_;
  const kfdcp::Mapping memory_;
  std::uint32_t generation_ = 0;
};

/// The peer of a RenderShare.
int run_render_peer(int socket, kfdcp::UniqueFd place, const std::string& node,
                    const Pattern& pattern);

}  // namespace lab
