#include "core/drm/gpu_objects.h"

#include <drm.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <string_view>
#include <utility>

#include "core/drm/dmabuf.h"
#include "core/os/device_call.h"

namespace kfdcp {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2u << 20;

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

/// The errno behind what libdrm returned: -errno, or -1 with errno set where it passes on the
/// result of an older libdrm function.
int errno_of(int result) { return result == -1 ? errno : -result; }

int allocate(const GpuDevice& device, std::uint64_t bytes, std::uint32_t heap, std::uint64_t flags,
             amdgpu_bo_handle& bo) {
  amdgpu_bo_alloc_request request{};
  request.alloc_size = bytes;
  request.phys_alignment = kPage;
  request.preferred_heap = heap;
  request.flags = flags;
  return amdgpu_bo_alloc(device.get(), &request, &bo);
}

/// libdrm reads a null pointer when it is given a file that has no DRM version.
void check_driver(int render_fd) {
  std::array<char, 16> name{};
  drm_version version{};
  version.name = name.data();
  version.name_len = name.size();
  if (::ioctl(render_fd, DRM_IOCTL_VERSION, &version) != 0) {
    throw call_error("DRM_IOCTL_VERSION", errno);
  }
  const std::string_view driver(name.data(), std::min(name.size(), version.name_len));
  if (driver != "amdgpu") {
    throw Error(ErrorCode::gpu,
                "render node: its driver is " + std::string(driver) + ", not amdgpu");
  }
}

}  // namespace

Error gpu_error(const std::string& call, std::uint64_t bytes, int result) {
  return call_error(call + " of " + std::to_string(bytes) + " bytes", errno_of(result));
}

GpuDevice open_gpu(int render_fd) {
  check_driver(render_fd);
  amdgpu_device_handle device = nullptr;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  const int r = amdgpu_device_initialize(render_fd, &major, &minor, &device);
  if (r != 0) throw call_error("amdgpu_device_initialize", errno_of(r));
  return GpuDevice(device);
}

std::uint32_t gpu_family(const GpuDevice& device) {
  amdgpu_gpu_info info{};
  const int r = amdgpu_query_gpu_info(device.get(), &info);
  if (r != 0) throw call_error("amdgpu_query_gpu_info", errno_of(r));
  return info.family_id;
}

std::uint32_t dma_rings(const GpuDevice& device) {
  drm_amdgpu_info_hw_ip info{};
  const int r = amdgpu_query_hw_ip_info(device.get(), AMDGPU_HW_IP_DMA, 0, &info);
  if (r != 0) throw call_error("amdgpu_query_hw_ip_info", errno_of(r));
  return static_cast<std::uint32_t>(std::popcount(info.available_rings));
}

GpuContext create_context(const GpuDevice& device) {
  amdgpu_context_handle context = nullptr;
  const int r = amdgpu_cs_ctx_create(device.get(), &context);
  if (r != 0) throw call_error("amdgpu_cs_ctx_create", errno_of(r));
  return GpuContext(context);
}

GpuBo import_dmabuf(const GpuDevice& device, int dmabuf_fd, std::uint64_t bytes,
                    std::optional<std::uint64_t> offset) {
  amdgpu_bo_import_result result{};
  const int r = amdgpu_bo_import(device.get(), amdgpu_bo_handle_type_dma_buf_fd,
                                 static_cast<std::uint32_t>(dmabuf_fd), &result);
  if (r != 0) throw gpu_error("amdgpu_bo_import", bytes, r);
  GpuBo bo(result.buf_handle);
  drm::check_content(result.alloc_size, bytes, offset);
  return bo;
}

UniqueFd export_dmabuf(const GpuBo& bo, std::uint64_t bytes) {
  std::uint32_t fd = 0;
  const int r = amdgpu_bo_export(bo.get(), amdgpu_bo_handle_type_dma_buf_fd, &fd);
  if (r != 0) throw gpu_error("amdgpu_bo_export", bytes, r);
  return UniqueFd(static_cast<int>(fd));
}

GpuBo pin_memory(const GpuDevice& device, std::span<std::byte> memory) {
  amdgpu_bo_handle bo = nullptr;
  const int r =
      amdgpu_create_bo_from_user_mem(device.get(), memory.data(), memory.size_bytes(), &bo);
  if (r != 0) throw gpu_error("amdgpu_create_bo_from_user_mem", memory.size_bytes(), r);
  return GpuBo(bo);
}

GpuBo allocate_gtt(const GpuDevice& device, std::uint64_t bytes) {
  amdgpu_bo_handle bo = nullptr;
  const int r = allocate(device, bytes, AMDGPU_GEM_DOMAIN_GTT, 0, bo);
  if (r != 0) throw gpu_error("amdgpu_bo_alloc", bytes, r);
  return GpuBo(bo);
}

GpuBo allocate_spare_vram(const GpuDevice& device, std::uint64_t bytes) {
  constexpr std::uint64_t kStaysFree = 16;
  amdgpu_heap_info heap{};
  int r = amdgpu_query_heap_info(device.get(), AMDGPU_GEM_DOMAIN_VRAM, 0, &heap);
  if (r != 0) throw gpu_error("amdgpu_query_heap_info", bytes, r);
  const std::uint64_t taken = heap.heap_usage + heap.heap_size / kStaysFree;
  if (taken > heap.heap_size || bytes > heap.heap_size - taken) return nullptr;
  amdgpu_bo_handle bo = nullptr;
  r = allocate(device, bytes, AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_NO_CPU_ACCESS, bo);
  if (r != 0 && errno_of(r) == ENOMEM) return nullptr;
  if (r != 0) throw gpu_error("amdgpu_bo_alloc", bytes, r);
  GpuBo made(bo);
  // Where VRAM is full the kernel gives GTT instead, and adds it to the preferred domains
  // (amdgpu_gem.c:amdgpu_gem_create_ioctl@6.12.117).
  amdgpu_bo_info info{};
  r = amdgpu_bo_query_info(made.get(), &info);
  if (r != 0) throw gpu_error("amdgpu_bo_query_info", bytes, r);
  return info.preferred_heap == AMDGPU_GEM_DOMAIN_VRAM ? std::move(made) : nullptr;
}

std::uint32_t gem_handle(const GpuBo& bo) {
  std::uint32_t handle = 0;
  const int r = amdgpu_bo_export(bo.get(), amdgpu_bo_handle_type_kms, &handle);
  if (r != 0) throw call_error("amdgpu_bo_export of a handle", errno_of(r));
  return handle;
}

GpuMapping::GpuMapping(const GpuDevice& device, const GpuBo& bo, std::uint64_t bytes,
                       std::uint64_t flags, std::uint64_t offset)
    : device_(device.get()), bo_(bo.get()), bytes_(whole_pages(bytes)), offset_(offset) {
  amdgpu_va_handle range = nullptr;
  // The GPU can use large pages when an address has the alignment of its memory.
  const std::uint64_t alignment = bytes_ >= kHugePage ? kHugePage : kPage;
  int r = amdgpu_va_range_alloc(device_, amdgpu_gpu_va_range_general, bytes_, alignment, 0,
                                &address_, &range, 0);
  if (r != 0) throw gpu_error("amdgpu_va_range_alloc", bytes_, r);
  range_.reset(range);
  r = amdgpu_bo_va_op_raw(device_, bo_, offset_, bytes_, address_, flags, AMDGPU_VA_OP_MAP);
  if (r != 0) throw gpu_error("amdgpu_bo_va_op map", bytes_, r);
}

GpuMapping::~GpuMapping() {
  (void)amdgpu_bo_va_op_raw(device_, bo_, offset_, bytes_, address_, 0, AMDGPU_VA_OP_UNMAP);
}

GpuCpuMapping::GpuCpuMapping(const GpuBo& bo, std::size_t bytes) : bo_(bo.get()) {
  void* base = nullptr;
  const int r = amdgpu_bo_cpu_map(bo_, &base);
  if (r != 0) throw gpu_error("amdgpu_bo_cpu_map", bytes, r);
  bytes_ = {static_cast<std::byte*>(base), bytes};
}

GpuCpuMapping::~GpuCpuMapping() { (void)amdgpu_bo_cpu_unmap(bo_); }

}  // namespace kfdcp
