// Buffers of other processes: the restored task imports them instead of its own.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/kfd/state.h"
#include "core/os/fd.h"

namespace kfdcp::criu {

/// RESTORE gives every BO memory of its own. For each BO that the session names, this gives that
/// memory back and imports the buffer which the BO shared, with the same handle and GPU mappings.
/// Waits until those buffers are there. `state` is what RESTORE left; the buckets of imported BOs
/// get a new restored_offset. Returns the dma-bufs of those, by BO index. Throws Error.
std::vector<std::pair<std::uint32_t, UniqueFd>> import_shared(int session, int kfd_fd,
                                                              std::uint32_t ordinal,
                                                              ProcessState& state);

}  // namespace kfdcp::criu
