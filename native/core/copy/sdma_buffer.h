// Buffers imported for SDMA copies.
#pragma once

#include <amdgpu.h>

#include <array>
#include <cstdint>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/copy/sdma_ring.h"
#include "core/drm/gpu_objects.h"

namespace kfdcp {

/// BO lists of copies: their buffers and what every copy needs. Consecutive copies are nearly
/// always of one large buffer or each of other small ones, so that the last list alone is kept.
class SdmaBoLists {
 public:
  SdmaBoLists(const GpuDevice& device, amdgpu_bo_handle staging, amdgpu_bo_handle ibs)
      : device_(device), always_{staging, ibs} {}

  const GpuBoList& of(std::vector<amdgpu_bo_handle> bos);

  /// `bo` goes: its memory must not live on in a list, nor be taken for that of a later BO.
  void forget(amdgpu_bo_handle bo) noexcept;

 private:
  const GpuDevice& device_;
  std::array<amdgpu_bo_handle, 2> always_;
  std::vector<amdgpu_bo_handle> bos_;
  GpuBoList list_;
};

/// A buffer in the address space of the engine; it goes when the last copy of it has ended.
class SdmaBuffer final : public DeviceBuffer {
 public:
  /// `size` bytes of `bo` from `offset` on.
  SdmaBuffer(const GpuDevice& device, SdmaRing& ring, SdmaBoLists& lists, GpuBo bo,
             std::uint64_t size, std::uint64_t offset);
  ~SdmaBuffer() override;

  std::uint64_t size() const { return size_; }
  std::uint64_t address() const { return mapping_.address(); }
  amdgpu_bo_handle bo() const { return bo_.get(); }
  const SdmaRing* ring() const { return &ring_; }
  void used_by(std::uint64_t sequence) { last_ = sequence; }

 private:
  SdmaRing& ring_;
  SdmaBoLists& lists_;
  std::uint64_t size_;
  std::uint64_t last_ = 0;
  GpuBo bo_;
  GpuMapping mapping_;
};

}  // namespace kfdcp
