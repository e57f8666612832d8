// The size of a dma-buf, and of its content.
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

}  // namespace kfdcp::drm
