// The render files of a task in restore: their contents beside KFD's memory.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/kfd/state.h"
#include "core/os/fd.h"

namespace kfdcp::criu {

/// BO of the process, and its dma-buf.
using Dmabufs = std::vector<std::pair<std::uint32_t, UniqueFd>>;

/// Where the CPU maps a buffer that is not KFD's.
struct RenderOffset {
  std::uint32_t gpu_id;  // as the BO buckets have it
  std::uint64_t which;   // as in render_file()
  std::uint64_t old_offset;
  std::uint64_t new_offset;
};

/// Restores every render file of the process, and gives the session the dma-bufs of the buffers
/// that were made. `kfd_dmabufs` belong to KFD's BOs, `shared` to its BOs that are buffers of other
/// processes. Throws Error.
std::vector<RenderOffset> restore_render_files(int socket, const ProcessState& state,
                                               const Dmabufs& kfd_dmabufs, const Dmabufs& shared);

}  // namespace kfdcp::criu
