// A GEM BO on a render file of the program's own.
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <fcntl.h>

#include <cstring>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "holding.h"

namespace lab {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

void check_drm(int result, const char* what) {
  if (result == 0) return;
  throw kfdcp::Error(kfdcp::ErrorCode::gpu, std::string(what) + ": " + std::strerror(-result),
                     -result);
}

kfdcp::UniqueFd open_render(const std::string& path) {
  kfdcp::UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw kfdcp::io_error(path);
  return fd;
}

class HeldGem : public Holding {
 public:
  HeldGem(const Runtime& runtime, const Pattern& pattern, bool two_files)
      : pattern_(pattern), two_files_(two_files) {
    const std::string path = runtime.render_node();
    if (two_files) idle_ = open_render(path);
    render_ = open_render(path);
    std::uint32_t major = 0, minor = 0;
    // Not deduplicated: libdrm would otherwise hand out the device on the render file ROCr opened.
    check_drm(amdgpu_device_initialize2(render_.get(), false, &major, &minor, &device_),
              "initialising libdrm_amdgpu");
    try {
      make_object();
    } catch (...) {
      release();
      throw;
    }
  }

  ~HeldGem() override { release(); }

  const char* name() const override { return two_files_ ? "double-render" : "gem"; }

  void check() override {
    pattern_.check("GEM BO", kGemObject, 0, bytes());
    amdgpu_bo_info info{};
    check_drm(amdgpu_bo_query_info(object_, &info), "asking for a GEM BO");
    if (info.alloc_size != kBytes) {
      throw kfdcp::Error(kfdcp::ErrorCode::corrupt,
                         "GEM BO: its size is " + std::to_string(info.alloc_size));
    }
  }

 private:
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(mapped_), kBytes}; }

  void make_object() {
    amdgpu_bo_alloc_request request{};
    request.alloc_size = kBytes;
    request.phys_alignment = 4096;
    request.preferred_heap = AMDGPU_GEM_DOMAIN_GTT;
    check_drm(amdgpu_bo_alloc(device_, &request, &object_), "allocating a GEM BO");
    check_drm(amdgpu_va_range_alloc(device_, amdgpu_gpu_va_range_general, kBytes, 4096, 0,
                                    &address_, &range_, 0),
              "reserving a GPU address");
    check_drm(amdgpu_bo_va_op(object_, 0, kBytes, address_, 0, AMDGPU_VA_OP_MAP),
              "mapping a GEM BO to the GPU");
    bound_ = true;
    check_drm(amdgpu_bo_cpu_map(object_, &mapped_), "mapping a GEM BO to the CPU");
    pattern_.write(kGemObject, 0, bytes());
  }

  void release() {
    if (mapped_ != nullptr) amdgpu_bo_cpu_unmap(object_);
    if (bound_) amdgpu_bo_va_op(object_, 0, kBytes, address_, 0, AMDGPU_VA_OP_UNMAP);
    if (range_ != nullptr) amdgpu_va_range_free(range_);
    if (object_ != nullptr) amdgpu_bo_free(object_);
    amdgpu_device_deinitialize(device_);
  }

  const Pattern& pattern_;
  const bool two_files_;
  kfdcp::UniqueFd idle_, render_;
  amdgpu_device_handle device_ = nullptr;
  amdgpu_bo_handle object_ = nullptr;
  amdgpu_va_handle range_ = nullptr;
  std::uint64_t address_ = 0;
  bool bound_ = false;
  void* mapped_ = nullptr;
};

}  // namespace

std::unique_ptr<Holding> hold_gem(const Runtime& runtime, const Pattern& pattern, bool two_files) {
  return std::make_unique<HeldGem>(runtime, pattern, two_files);
}

}  // namespace lab
