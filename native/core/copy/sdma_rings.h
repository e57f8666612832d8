// Submissions of SDMA copies, and their ends.
#pragma once

#include <amdgpu.h>
#include <amdgpu_drm.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/drm/gpu_objects.h"

namespace kfdcp {

/// DMA rings of a context (amdgpu_ctx.c:amdgpu_ctx_num_entities@6.1.192, the same @7.3.4).
inline constexpr std::size_t kDmaRings = 2;

/// A submission: its ring and its number there, from 1 on.
struct SdmaFence {
  std::uint32_t ring = 0;
  std::uint64_t sequence = 0;  // 0: no submission
  bool operator==(const SdmaFence&) const = default;
};

/// Submission and fences of one context, on all its DMA rings in turn: two engines work where the
/// GPU has them. Fences of one ring complete in order.
class SdmaRings {
 public:
  explicit SdmaRings(const GpuDevice& device);

  /// Runs `dwords` of commands at GPU address `commands`, which copy `bytes`. They and all they
  /// touch are in `bos`, GEM handles, each once. Throws Error{gpu}.
  SdmaFence submit(std::span<const std::uint32_t> bos, std::uint64_t commands, std::uint32_t dwords,
                   std::uint64_t bytes);

  /// Returns when the fence is signalled. Throws Error{gpu} when the copy failed, with ETIMEDOUT
  /// when it does not end.
  void wait(const SdmaFence& fence, std::uint64_t bytes);

  /// For destructors: ends when the GPU is done with `fence`, whatever became of it.
  void settle(const SdmaFence& fence) noexcept;

 private:
  amdgpu_device_handle device_;
  GpuContext context_;
  std::uint32_t rings_;
  std::uint32_t next_ = 0;
  std::array<std::uint64_t, kDmaRings> completed_{};  // by ring
  bool stuck_ = false;
};

}  // namespace kfdcp
