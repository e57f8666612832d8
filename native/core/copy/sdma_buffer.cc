#include "core/copy/sdma_buffer.h"

#include <amdgpu_drm.h>

#include <utility>

namespace kfdcp {

SdmaBuffer::SdmaBuffer(const GpuDevice& device, SdmaRings& rings, GpuBo bo, std::uint64_t size,
                       std::uint64_t offset)
    : rings_(rings),
      size_(size),
      bo_(std::move(bo)),
      handle_(gem_handle(bo_)),
      mapping_(device, bo_, size, AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE, offset) {}

SdmaBuffer::~SdmaBuffer() {
  for (const SdmaFence& fence : last_) rings_.settle(fence);
}

}  // namespace kfdcp
