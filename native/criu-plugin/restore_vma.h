// The GPU mappings of a task in restore: CRIU asks for the new file and offset of each.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kfd/state.h"
#include "core/os/fd.h"
#include "criu-plugin/restore_render.h"

namespace kfdcp::criu {

/// /dev/kfd of the container. Throws Error{io}.
UniqueFd open_kfd();

/// The GPU state of this task is there again: `state` with the restored_offset of each bucket, and
/// the `offsets` of buffers that are not KFD's. `criu_pid` as for connect_session(). Throws
/// Error{corrupt} for a mapping of no buffer.
void expect_mappings(int criu_pid, ProcessState state, std::vector<RenderOffset> offsets);

/// The ordinal of the process that this task is, once expect_mappings() was called.
std::optional<std::uint32_t> restored_ordinal();

/// True when the mapping at `address` of the file at `path` is ours: `new_offset` (bytes) and, when
/// not -1, `fd` replace what CRIU would use.
bool update_vma(const char* path, std::uint64_t address, std::uint64_t old_offset,
                std::uint64_t& new_offset, int& fd);

}  // namespace kfdcp::criu
