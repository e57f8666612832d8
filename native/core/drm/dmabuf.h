// A dma-buf: its size, and the buffer of a GPU behind it.
#pragma once

#include <cstdint>
#include <optional>

namespace kfdcp::drm {

/// Bytes of a dma-buf; those of the buffer it was made of (drm_prime.c:drm_gem_prime_export@7.3.4).
/// Throws Error{gpu}.
std::uint64_t dmabuf_bytes(int dmabuf);

/// Throws Error{gpu} unless a dma-buf of `whole` bytes has `bytes` bytes of content from `offset`
/// on. Without `offset` the content is the whole dma-buf, to the byte: the kernel rounds the size
/// of a buffer to pages when it makes it (amdgpu_object.c:amdgpu_bo_create@7.3.4), and never again.
void check_content(std::uint64_t whole, std::uint64_t bytes, std::optional<std::uint64_t> offset);

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
