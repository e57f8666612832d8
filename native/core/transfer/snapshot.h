// Copies of buffers that a GPU process may write again soon, so that they can be drained later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/os/fd.h"
#include "core/transfer/transfer.h"

namespace kfdcp {

/// Where the copy of a buffer begins.
struct SnapshotPlace {
  std::size_t memory;    // index
  std::uint64_t offset;  // in it, bytes; a multiple of 4096
};

/// The layout of a snapshot.
struct SnapshotPlan {
  std::vector<std::uint64_t> memory;  // sizes, bytes
  std::vector<SnapshotPlace> places;  // in the order of the buffers
};

/// Copies of all buffers; they go when `memory` is closed.
struct Snapshot {
  std::vector<UniqueFd> memory;       // dma-bufs in VRAM, or one memfd
  std::vector<SnapshotPlace> places;  // in the order of the buffers
};

/// Buffers one behind the other; none lies in two pieces of memory, of at most `most` bytes each
/// unless one buffer has more. Throws Error{protocol} when the sizes are no sizes of buffers.
SnapshotPlan plan_snapshot(const std::vector<ContentBuffer>& buffers, std::uint64_t most);

/// Copies all buffers to VRAM, on the GPU. None when that has no room. A requested stop is seen
/// before the next copy: Error{cancelled}. Errors as by drain().
std::optional<Snapshot> snapshot_to_vram(CopyEngine& engine,
                                         const std::vector<ContentBuffer>& buffers,
                                         const std::stop_token& stop);

/// Copies all buffers to host memory, a memfd. The same errors, and Error{io} when the memory is
/// short.
Snapshot snapshot_to_host(CopyEngine& engine, const std::vector<ContentBuffer>& buffers,
                          const TransferOptions& options, const std::stop_token& stop);

}  // namespace kfdcp
