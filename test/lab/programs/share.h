// VRAM BOs shared by two GPU processes.
#pragma once

#include <memory>

#include "core/os/fd.h"
#include "dma.h"
#include "holding.h"
#include "options.h"
#include "pattern.h"
#include "peer.h"
#include "runtime.h"

namespace lab {

/// --share: a VRAM BO of 4 MiB that `peer` has imported, and one of the peer's. Each process holds
/// the dma-buf of the other's BO, with a number below that of /dev/kfd, and nobody that of its own.
/// `ipc` (--ipc): and a third one, which the peer has by ROCr's IPC: ROCr here gives a dma-buf to
/// whoever asks on its socket, and keeps none.
/// check() sends new contents back and forth, so that two copies of a BO are told from one.
std::unique_ptr<Holding> hold_share(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                                    const Peer& peer, bool ipc);

/// The peer of hold_share(), with a ROCr of its own, on the GPU of --peer-gpu.
int run_sharer(int socket, kfdcp::UniqueFd place, const Options& options);

}  // namespace lab
