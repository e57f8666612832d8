// The render state file: the contents of one open file of a render node beside KFD's memory. These
// are GEM handles, their GPU mappings, contexts and BO lists. docs/image-format.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kfdcp {

/// The BOs of a process are counted through: the BO buckets of its KFD state, then the BOs of its
/// render state files in the order of their ordinals. This is none of them: a BO of the file's own.
inline constexpr std::uint32_t kOwnBo = 0xffffffff;

/// One GEM handle. Sizes are bytes.
struct GemBo {
  std::uint32_t handle;
  std::uint32_t original;     // the BO of the process that it is another handle of, or kOwnBo
  std::uint64_t size;         // of whole pages
  std::uint64_t alignment;    // of its memory
  std::uint64_t domains;      // AMDGPU_GEM_DOMAIN_*, as preferred when it was made
  std::uint64_t flags;        // AMDGPU_GEM_CREATE_*
  std::uint64_t mmap_offset;  // in the render node; 0: the CPU must not map it
};

/// One mapping of a BO in the GPU address space of the file.
struct GemMapping {
  std::uint32_t bo;        // position among the BOs
  std::uint32_t reserved;  // 0
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t offset;  // into the BO
  std::uint64_t flags;   // AMDGPU_VM_PAGE_* and AMDGPU_VM_MTYPE_*, as GEM_VA takes them
};

/// What user space stored with a BO for whoever it shares it with.
struct GemMetadata {
  std::uint32_t bo;     // position among the BOs
  std::uint32_t bytes;  // of `data` that count
  std::uint64_t flags;
  std::uint64_t tiling;
  std::array<std::uint32_t, 64> data;
};

/// One ring of one context and how often something was submitted to it: the number of the last
/// submission is what an application waits for.
struct ContextRing {
  std::uint32_t context;  // id
  std::uint32_t ip;       // AMDGPU_HW_IP_*
  std::uint32_t instance;
  std::uint32_t ring;
  std::uint64_t submissions;  // at least 1
};

/// Everything needed to give one render file back to the kernel.
struct RenderState {
  std::uint32_t ordinal = 0;            // n of render-state-<n>.img
  std::vector<GemBo> bos;               // in the order of their handles
  std::vector<GemMapping> mappings;     // in the order of their addresses
  std::vector<GemMetadata> metadata;    // in the order of the BOs; those that have any
  std::vector<std::uint32_t> contexts;  // ids, ascending
  std::vector<ContextRing> rings;       // in the order of their first four fields
  std::vector<std::uint32_t> bo_lists;  // ids, ascending

  /// Nothing that would have to be given back.
  bool empty() const { return bos.empty() && contexts.empty() && bo_lists.empty(); }
};

/// Contexts have ids below this (AMDGPU_VM_MAX_NUM_CTX, drivers/gpu/drm/amd/amdgpu/amdgpu_ctx.c).
inline constexpr std::uint32_t kContextIds = 4096;
/// Ids of BO lists have no bound in the kernel; each of them, and each below it, is made again.
inline constexpr std::uint32_t kMaxBoListId = 65536;
/// Each submission is made again, so there must be a bound: a second or two.
inline constexpr std::uint64_t kMaxSubmissions = 65536;

/// Throws Error{protocol} for a state that decode_render_state() would refuse.
std::vector<std::byte> encode_render_state(const RenderState& state);

/// Checks a file of `bytes` bytes by its first 128, before the rest is in memory. Throws
/// Error{corrupt|unsupported}.
void check_render_state_head(std::span<const std::byte> head, std::uint64_t bytes);

/// Strict: checksum, counts, sizes, orders, limits. Throws Error{corrupt|unsupported}.
RenderState decode_render_state(std::span<const std::byte> bytes);

}  // namespace kfdcp
