#include "core/copy/sdma_ring.h"

#include <amdgpu_drm.h>

#include <algorithm>
#include <cerrno>

#include "core/os/error.h"

namespace kfdcp {

namespace {

// The kernel's own watchdog resets a stuck ring and completes our fence with an error: after 10 s
// (60 s in a virtual function), since Linux 7 after 2 s
// (amdgpu_device.c:amdgpu_device_get_job_timeout_settings@7.2.13). This limit is for a kernel
// whose watchdog is switched off.
constexpr std::uint64_t kTimeoutNs = 120ull * 1'000'000'000;

}  // namespace

std::uint64_t SdmaRing::submit(const GpuBoList& bos, std::uint64_t ib_address, std::uint32_t dwords,
                               std::uint64_t bytes) {
  amdgpu_cs_ib_info ib{};
  ib.ib_mc_address = ib_address;
  ib.size = dwords;
  amdgpu_cs_request request{};
  request.ip_type = AMDGPU_HW_IP_DMA;
  request.resources = bos.get();
  request.number_of_ibs = 1;
  request.ibs = &ib;
  const int r = amdgpu_cs_submit(context_.get(), 0, &request, 1);
  if (r != 0) throw gpu_error("amdgpu_cs_submit of a copy", bytes, r);
  return request.seq_no;
}

void SdmaRing::wait(std::uint64_t sequence, std::uint64_t bytes) {
  amdgpu_cs_fence fence{};
  fence.context = context_.get();
  fence.ip_type = AMDGPU_HW_IP_DMA;
  fence.fence = sequence;
  std::uint32_t expired = 0;
  // When one copy never ends, the later ones do not end either. They get a shorter wait.
  const int r = amdgpu_cs_query_fence_status(&fence, stuck_ ? 0 : kTimeoutNs, 0, &expired);
  if (r != 0) throw gpu_error("amdgpu_cs_query_fence_status of a copy", bytes, r);
  if (expired == 0) {
    stuck_ = true;
    throw gpu_error("amdgpu_cs_query_fence_status of a copy", bytes, -ETIMEDOUT);
  }
  completed_ = std::max(completed_, sequence);
}

void SdmaRing::settle(std::uint64_t sequence) noexcept {
  if (sequence <= completed_) return;
  try {
    wait(sequence, 0);
  } catch (const Error&) {
    // wait(slot) reports failed copies. Here only their end matters.
  }
}

}  // namespace kfdcp
