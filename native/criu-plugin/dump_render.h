// The render files of a GPU process at a dump.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kfd/kfd.h"
#include "core/survey/survey.h"

namespace kfdcp::criu {

/// Finds out which of the files carry KFD's memory, and which of their buffers are KFD's or each
/// other's. Throws Error{unsupported} when that cannot be found out.
void link_render_files(GpuProcess& process, const kfd::Checkpoint& saved);

/// The mappings of the GPU that `process` has, with their GPUs. Throws Error{unsupported} for one
/// that could not be restored.
std::vector<VmaRecord> mappings(const GpuProcess& process, const ProcessState& state);

/// Sends the session the state of each file, and the dma-bufs of its own buffers. `next_number`
/// numbers the files of the tree.
void send_render_files(int socket, GpuProcess& process, const ProcessState& state,
                       std::uint32_t& next_number);

}  // namespace kfdcp::criu
