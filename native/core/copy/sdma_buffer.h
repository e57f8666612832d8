// Buffers imported for SDMA copies.
#pragma once

#include <amdgpu.h>

#include <array>
#include <cstdint>

#include "core/copy/copy_engine.h"
#include "core/copy/sdma_rings.h"
#include "core/drm/gpu_objects.h"

namespace kfdcp {

/// A buffer in the address space of the engine; it goes when the last copies of it have ended.
class SdmaBuffer final : public DeviceBuffer {
 public:
  /// `size` bytes of `bo` from `offset` on.
  SdmaBuffer(const GpuDevice& device, SdmaRings& rings, GpuBo bo, std::uint64_t size,
             std::uint64_t offset);
  ~SdmaBuffer() override;

  std::uint64_t size() const { return size_; }
  std::uint64_t address() const { return mapping_.address(); }
  std::uint32_t handle() const { return handle_; }
  const SdmaRings* rings() const { return &rings_; }
  void used_by(const SdmaFence& fence) { last_.at(fence.ring) = fence; }

 private:
  SdmaRings& rings_;
  std::uint64_t size_;
  std::array<SdmaFence, kDmaRings> last_{};  // by ring
  GpuBo bo_;
  std::uint32_t handle_;
  GpuMapping mapping_;
};

}  // namespace kfdcp
