// Links between the render files of a process and its KFD state: the file with KFD's memory, and
// GEM handles of buffers that belong to KFD or to another file.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/drm/render_read.h"
#include "core/kfd/state.h"
#include "core/os/fd.h"

namespace kfdcp {

/// True when the CPU may map KFD's buffers through `render_fd` and through none of `others`, all of
/// one GPU: the kernel allows it for the file whose GPU address space KFD took over, and for files
/// with a handle of the buffer. `offsets` are the offsets of its buffers in the render node.
bool carries_kfd(int render_fd, std::span<const int> others,
                 std::span<const std::uint64_t> offsets);

struct LinkedFile {
  RenderSnapshot* held;
  bool carries_kfd;
  std::uint32_t gpu_id;  // as the BO buckets have it
};

/// Sets `original` of each BO in `files`, which are all render files of a process, to the first BO
/// that is the same buffer: among KFD's, by index, then among those of the files. Buffers are the
/// same by their mmap offset on one GPU, or by the inode of their dma-buf. Old kernels give each
/// export an inode of its own (kfd_chardev.c:criu_get_prime_handle@6.1.192); a GPU that imports
/// another GPU's buffer has an offset of its own for it.
/// GPU mappings that are KFD's own are taken out: they come back with its state. Throws Error{io}.
void link_buffers(std::span<const LinkedFile> files, const ProcessState& state,
                  const std::vector<std::pair<std::uint32_t, UniqueFd>>& kfd_dmabufs);

}  // namespace kfdcp
