// What libdrm_amdgpu hands out, over a fake kernel: what it refuses, and what is said of it.
#include "core/drm/gpu_objects.h"

#include <doctest/doctest.h>
#include <drm.h>

#include <cerrno>
#include <string>
#include <utility>

#include "core/os/page_memory.h"
#include "test/copy/fake_amdgpu.h"
#include "test/os/memory_file.h"

namespace kfdcp::test {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

/// The text of the Error{gpu} that `work` throws.
template <class Work>
std::string refusal_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.code == ErrorCode::gpu);
    return error.what();
  }
  return "nothing";
}

/// The same when the kernel answers `request` with EIO.
template <class Work>
std::string refusal_of(FakeAmdgpu& gpu, unsigned long request, Work&& work) {
  gpu.errors = {{_IOC_NR(request), EIO}};
  std::string text = refusal_of(std::forward<Work>(work));
  gpu.errors.clear();
  return text;
}

}  // namespace

TEST_CASE("GPU: a render node of another driver is refused by its name") {
  FakeAmdgpu gpu;
  const auto opened = [&] { return refusal_of([&] { (void)open_gpu(gpu.fd()); }); };
  CHECK(opened() == "nothing");
  gpu.driver_name = "radeon";
  CHECK(opened() == "render node: its driver is radeon, not amdgpu");
  gpu.driver_name = "amdgpu2";
  CHECK(opened() == "render node: its driver is amdgpu2, not amdgpu");
  gpu.driver_name = "";
  CHECK(opened() == "render node: its driver is , not amdgpu");
}

TEST_CASE("GPU: a call that fails is told with its name and the kernel's reason") {
  FakeAmdgpu gpu;
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_INFO, [&] { (void)open_gpu(gpu.fd()); }) ==
        "amdgpu_device_initialize: Input/output error");
  const GpuDevice device = open_gpu(gpu.fd());
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_INFO, [&] { (void)dma_rings(device); }) ==
        "amdgpu_query_hw_ip_info: Input/output error");
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_CTX, [&] { (void)create_context(device); }) ==
        "amdgpu_cs_ctx_create: Input/output error");
}

TEST_CASE("GPU: memory that cannot be had is told with its size") {
  FakeAmdgpu gpu;
  const GpuDevice device = open_gpu(gpu.fd());
  const UniqueFd file = memory_file(Bytes(8192));
  const auto import = [&] { (void)import_dmabuf(device, file.get(), 8192, 0); };
  CHECK(refusal_of(gpu, DRM_IOCTL_PRIME_FD_TO_HANDLE, import) ==
        "amdgpu_bo_import of 8192 bytes: Input/output error");
  Mapping memory = page_memory(8192);
  const auto pin = [&] { (void)pin_memory(device, memory.bytes()); };
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_GEM_USERPTR, pin) ==
        "amdgpu_create_bo_from_user_mem of 8192 bytes: Input/output error");
  const auto allocate = [&] { (void)allocate_gtt(device, 8192); };
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_GEM_CREATE, allocate) ==
        "amdgpu_bo_alloc of 8192 bytes: Input/output error");
  CHECK(gpu.live() == 0);
}

TEST_CASE("GPU: a buffer that cannot be passed on or mapped is told with its size") {
  FakeAmdgpu gpu;
  const GpuDevice device = open_gpu(gpu.fd());
  const GpuBo bo = allocate_gtt(device, 8192);
  const auto pass_on = [&] { (void)export_dmabuf(bo, 8192); };
  CHECK(refusal_of(gpu, DRM_IOCTL_PRIME_HANDLE_TO_FD, pass_on) ==
        "amdgpu_bo_export of 8192 bytes: Input/output error");
  const auto for_cpu = [&] { GpuCpuMapping mapping(bo, 8192); };
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_GEM_MMAP, for_cpu) ==
        "amdgpu_bo_cpu_map of 8192 bytes: Input/output error");
  const auto for_gpu = [&] { GpuMapping mapping(device, bo, 8192, AMDGPU_VM_PAGE_READABLE); };
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_GEM_VA, for_gpu) ==
        "amdgpu_bo_va_op map of 8192 bytes: Input/output error");
  // More than all addresses.
  const auto huge = [&] { GpuMapping mapping(device, bo, 1ull << 50, AMDGPU_VM_PAGE_READABLE); };
  CHECK(refusal_of(huge).starts_with("amdgpu_va_range_alloc of 1125899906842624 bytes: "));
  CHECK(gpu.live() == 1);
}

TEST_CASE("GPU: spare VRAM is what leaves a sixteenth of it free") {
  FakeAmdgpu gpu;
  const GpuDevice device = open_gpu(gpu.fd());
  gpu.vram = 16 * kMiB;
  const auto fits = [&](std::uint64_t used, std::uint64_t bytes) {
    gpu.vram_used = used;
    return allocate_spare_vram(device, bytes) != nullptr;
  };
  CHECK(fits(0, 15 * kMiB));
  CHECK_FALSE(fits(0, 15 * kMiB + 4096));
  CHECK(fits(14 * kMiB, kMiB));
  CHECK_FALSE(fits(14 * kMiB, kMiB + 4096));
  CHECK_FALSE(fits(15 * kMiB, 4096));
  CHECK_FALSE(fits(16 * kMiB, 4096));
  CHECK(gpu.live() == 0);
}

TEST_CASE("GPU: VRAM that is taken meanwhile, or given in system memory, is no spare VRAM") {
  FakeAmdgpu gpu;
  const GpuDevice device = open_gpu(gpu.fd());
  gpu.vram = 16 * kMiB;
  gpu.vram_spills = true;
  CHECK(allocate_spare_vram(device, 4096) == nullptr);
  gpu.vram_spills = false;
  gpu.errors = {{_IOC_NR(DRM_IOCTL_AMDGPU_GEM_CREATE), ENOMEM}};
  CHECK(allocate_spare_vram(device, 4096) == nullptr);
  const auto allocate = [&] { (void)allocate_spare_vram(device, 4096); };
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_INFO, allocate) ==
        "amdgpu_query_heap_info of 4096 bytes: Input/output error");
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_GEM_CREATE, allocate) ==
        "amdgpu_bo_alloc of 4096 bytes: Input/output error");
  CHECK(refusal_of(gpu, DRM_IOCTL_AMDGPU_GEM_OP, allocate) ==
        "amdgpu_bo_query_info of 4096 bytes: Input/output error");
  CHECK(gpu.live() == 0);
}

}  // namespace kfdcp::test
