#include "core/copy/sdma_buffer.h"

#include <amdgpu_drm.h>

#include <algorithm>
#include <utility>

namespace kfdcp {

const GpuBoList& SdmaBoLists::of(std::vector<amdgpu_bo_handle> bos) {
  if (list_ && bos == bos_) return list_;
  bos_ = std::move(bos);
  std::vector<amdgpu_bo_handle> all(bos_);
  all.insert(all.end(), always_.begin(), always_.end());
  list_ = create_bo_list(device_, all);  // submissions hold what they use of the old one
  return list_;
}

void SdmaBoLists::forget(amdgpu_bo_handle bo) noexcept {
  if (std::find(bos_.begin(), bos_.end(), bo) == bos_.end()) return;
  list_.reset();
  bos_.clear();
}

SdmaBuffer::SdmaBuffer(const GpuDevice& device, SdmaRing& ring, SdmaBoLists& lists, GpuBo bo,
                       std::uint64_t size, std::uint64_t offset)
    : ring_(ring),
      lists_(lists),
      size_(size),
      bo_(std::move(bo)),
      mapping_(device, bo_, size, AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE, offset) {}

SdmaBuffer::~SdmaBuffer() {
  ring_.settle(last_);
  lists_.forget(bo_.get());
}

}  // namespace kfdcp
