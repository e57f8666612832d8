// RAII for libdrm_amdgpu: every object it hands out is owned by one of these.
#pragma once

#include <amdgpu.h>
#include <amdgpu_drm.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/os/error.h"
#include "core/os/fd.h"

namespace kfdcp {

/// Error{gpu} "<call> of <bytes> bytes: <strerror>" from what libdrm returned; to be called before
/// anything else can change errno.
Error gpu_error(const std::string& call, std::uint64_t bytes, int result);

template <auto Release>
struct GpuDelete {
  template <class T>
  void operator()(T* handle) const noexcept {
    Release(handle);
  }
};

using GpuDevice = std::unique_ptr<amdgpu_device, GpuDelete<amdgpu_device_deinitialize>>;
using GpuContext = std::unique_ptr<amdgpu_context, GpuDelete<amdgpu_cs_ctx_free>>;
using GpuBo = std::unique_ptr<amdgpu_bo, GpuDelete<amdgpu_bo_free>>;

/// Each throws Error{gpu} naming the libdrm call, the size and the errno.
/// `render_fd` is borrowed; it must be of amdgpu.
GpuDevice open_gpu(int render_fd);
std::uint32_t gpu_family(const GpuDevice& device);  // AMDGPU_FAMILY_*
std::uint32_t dma_rings(const GpuDevice& device);   // that a context may submit to
GpuContext create_context(const GpuDevice& device);
/// `dmabuf_fd` is borrowed. Also throws as drm::check_content() of the dma-buf.
GpuBo import_dmabuf(const GpuDevice& device, int dmabuf_fd, std::uint64_t bytes,
                    std::optional<std::uint64_t> offset);
UniqueFd export_dmabuf(const GpuBo& bo, std::uint64_t bytes);
/// Makes page-aligned memory of this process a BO; it must outlive the BO.
GpuBo pin_memory(const GpuDevice& device, std::span<std::byte> memory);
/// A BO in system memory (GTT) that the CPU may map.
GpuBo allocate_gtt(const GpuDevice& device, std::uint64_t bytes);
/// A BO in VRAM that the CPU need not reach. None when a sixteenth of the VRAM would not stay free:
/// the kernel would put it elsewhere, or others' BOs out of its way.
GpuBo allocate_spare_vram(const GpuDevice& device, std::uint64_t bytes);
std::uint32_t gem_handle(const GpuBo& bo);

/// A BO mapped at a GPU virtual address of its own for as long as this lives. The BO and the
/// device must outlive it.
class GpuMapping {
 public:
  /// `flags` are AMDGPU_VM_PAGE_*; `bytes`, from `offset` on, is rounded up to 4 KiB pages.
  GpuMapping(const GpuDevice& device, const GpuBo& bo, std::uint64_t bytes, std::uint64_t flags,
             std::uint64_t offset = 0);
  ~GpuMapping();
  GpuMapping(const GpuMapping&) = delete;
  GpuMapping& operator=(const GpuMapping&) = delete;

  std::uint64_t address() const { return address_; }

 private:
  using Range = std::unique_ptr<amdgpu_va, GpuDelete<amdgpu_va_range_free>>;

  amdgpu_device_handle device_;
  amdgpu_bo_handle bo_;
  std::uint64_t bytes_;
  std::uint64_t offset_;
  std::uint64_t address_ = 0;
  Range range_;
};

/// A BO mapped into this process for as long as this lives. The BO must outlive it.
class GpuCpuMapping {
 public:
  GpuCpuMapping(const GpuBo& bo, std::size_t bytes);
  ~GpuCpuMapping();
  GpuCpuMapping(const GpuCpuMapping&) = delete;
  GpuCpuMapping& operator=(const GpuCpuMapping&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  amdgpu_bo_handle bo_;
  std::span<std::byte> bytes_;
};

}  // namespace kfdcp
