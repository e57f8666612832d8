// Restoring the contents of a render file: the same numbers at the same places.
#pragma once

#include <functional>
#include <vector>

#include "core/drm/render_state.h"
#include "core/os/fd.h"

namespace kfdcp {

/// The dma-buf, borrowed, of BO `original` of the process, which exists already.
using ExistingBuffer = std::function<int(std::uint32_t original)>;

struct RestoredRender {
  std::vector<UniqueFd> dmabufs;            // of each BO, in the order of `state.bos`
  std::vector<std::uint64_t> mmap_offsets;  // of each BO; 0: none
};

/// `render_fd` was opened just now: it holds nothing. Handles get their numbers by
/// GEM_CHANGE_HANDLE where it works, else since each new one is the lowest free: placeholders keep
/// the lower ones taken. Contents are the caller's concern. A BO list is restored with all BOs of
/// the file, because no kernel reports its members. Throws Error{gpu} for calls that fail; the file
/// is then of no use.
RestoredRender restore_render_file(int render_fd, const RenderState& state,
                                   const ExistingBuffer& existing);

}  // namespace kfdcp
