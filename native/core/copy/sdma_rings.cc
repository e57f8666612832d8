#include "core/copy/sdma_rings.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/os/error.h"

namespace kfdcp {

namespace {

// The kernel's own watchdog resets a stuck ring and completes our fence with an error: after 10 s
// (60 s in a virtual function), since Linux 7 after 2 s
// (amdgpu_device.c:amdgpu_device_get_job_timeout_settings@7.2.13). This limit is for a kernel
// whose watchdog is switched off.
constexpr std::uint64_t kTimeoutNs = 120ull * 1'000'000'000;

template <class Data>
drm_amdgpu_cs_chunk chunk_of(std::uint32_t id, const Data& data) {
  drm_amdgpu_cs_chunk chunk{};
  chunk.chunk_id = id;
  chunk.length_dw = sizeof data / 4;
  chunk.chunk_data = reinterpret_cast<std::uintptr_t>(&data);
  return chunk;
}

}  // namespace

SdmaRings::SdmaRings(const GpuDevice& device)
    : device_(device.get()),
      context_(create_context(device)),
      rings_(std::clamp<std::uint32_t>(dma_rings(device), 1, kDmaRings)) {}

SdmaFence SdmaRings::submit(std::span<const std::uint32_t> bos, std::uint64_t commands,
                            std::uint32_t dwords, std::uint64_t bytes) {
  std::vector<drm_amdgpu_bo_list_entry> entries;
  entries.reserve(bos.size());
  for (const std::uint32_t bo : bos) entries.push_back({.bo_handle = bo, .bo_priority = 0});
  drm_amdgpu_bo_list_in list{};
  list.operation = ~0u;  // neither this nor a list's handle means anything in a submission
  list.list_handle = ~0u;
  list.bo_number = static_cast<std::uint32_t>(entries.size());
  list.bo_info_size = sizeof(drm_amdgpu_bo_list_entry);
  list.bo_info_ptr = reinterpret_cast<std::uintptr_t>(entries.data());
  drm_amdgpu_cs_chunk_ib ib{};
  ib.va_start = commands;
  ib.ib_bytes = dwords * static_cast<std::uint32_t>(sizeof(std::uint32_t));
  ib.ip_type = AMDGPU_HW_IP_DMA;
  ib.ring = next_;
  std::array<drm_amdgpu_cs_chunk, 2> chunks{chunk_of(AMDGPU_CHUNK_ID_BO_HANDLES, list),
                                            chunk_of(AMDGPU_CHUNK_ID_IB, ib)};
  SdmaFence fence{.ring = next_};
  const int r = amdgpu_cs_submit_raw2(device_, context_.get(), 0, chunks.size(), chunks.data(),
                                      &fence.sequence);
  if (r != 0) throw gpu_error("amdgpu_cs_submit_raw2 of a copy", bytes, r);
  next_ = (next_ + 1) % rings_;
  return fence;
}

void SdmaRings::wait(const SdmaFence& fence, std::uint64_t bytes) {
  amdgpu_cs_fence query{};
  query.context = context_.get();
  query.ip_type = AMDGPU_HW_IP_DMA;
  query.ring = fence.ring;
  query.fence = fence.sequence;
  std::uint32_t expired = 0;
  // When one copy never ends, the later ones do not end either. They get a shorter wait.
  const int r = amdgpu_cs_query_fence_status(&query, stuck_ ? 0 : kTimeoutNs, 0, &expired);
  if (r != 0) throw gpu_error("amdgpu_cs_query_fence_status of a copy", bytes, r);
  if (expired == 0) {
    stuck_ = true;
    throw gpu_error("amdgpu_cs_query_fence_status of a copy", bytes, -ETIMEDOUT);
  }
  std::uint64_t& completed = completed_.at(fence.ring);
  completed = std::max(completed, fence.sequence);
}

void SdmaRings::settle(const SdmaFence& fence) noexcept {
  if (fence.sequence <= completed_[fence.ring]) return;
  try {
    wait(fence, 0);
  } catch (const Error&) {
    // wait(slot) reports failed copies. Here only their end matters.
  }
}

}  // namespace kfdcp
