// What a GPU calls the buffer behind a dma-buf.
#pragma once

#include <cstdint>

namespace kfdcp::drm {

/// What a GPU calls a buffer.
struct BufferName {
  std::uint64_t bytes;
  std::uint64_t mmap_offset;  // in the render node; 0: the CPU must not map it
};

/// The buffer behind `dmabuf`, as the GPU of `render_fd` calls it. The offset belongs to the buffer
/// and its GPU alone (amdgpu_object.h:amdgpu_bo_mmap_offset@7.3.4): all handles, files and
/// processes see the same. A GPU that imports a buffer of another GPU makes an object with an
/// offset of its own (amdgpu_dma_buf.c:amdgpu_gem_prime_import@7.3.4). `render_fd` must have no
/// handle of the buffer: that handle would be closed. Throws Error{gpu}.
BufferName buffer_behind(int render_fd, int dmabuf);

}  // namespace kfdcp::drm
