// Submissions of SDMA copies, and their ends.
#pragma once

#include <amdgpu.h>

#include <cstdint>

#include "core/drm/gpu_objects.h"

namespace kfdcp {

/// Submission and fences of one context on DMA ring 0. Fences of one ring complete in order.
class SdmaRing {
 public:
  explicit SdmaRing(const GpuDevice& device) : context_(create_context(device)) {}

  /// Runs `dwords` of commands at GPU address `ib_address`, which copy `bytes`. Returns the
  /// sequence number of the fence. Throws Error{gpu}.
  std::uint64_t submit(const GpuBoList& bos, std::uint64_t ib_address, std::uint32_t dwords,
                       std::uint64_t bytes);

  /// Returns when the fence is signalled. Throws Error{gpu} when the copy failed, with ETIMEDOUT
  /// when it does not end.
  void wait(std::uint64_t sequence, std::uint64_t bytes);

  /// For destructors: ends when the GPU is done with `sequence`, whatever became of it.
  void settle(std::uint64_t sequence) noexcept;

 private:
  GpuContext context_;
  std::uint64_t completed_ = 0;
  bool stuck_ = false;
};

}  // namespace kfdcp
