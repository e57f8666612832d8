#include "core/kfd/kfd_maps.h"

#include <array>
#include <charconv>
#include <utility>

#include "core/os/error.h"

namespace kfdcp {

namespace {

constexpr int kGpuShift = 46;
constexpr std::uint64_t kGpuMask = std::uint64_t{0xffff} << kGpuShift;
constexpr std::uint64_t kTypeMask = std::uint64_t{3} << 62;

std::uint32_t gpu_in(std::uint64_t offset) {
  return static_cast<std::uint32_t>((offset & kGpuMask) >> kGpuShift);
}

std::uint64_t with_gpu(std::uint64_t offset, std::uint32_t gpu_id) {
  return (offset & ~kGpuMask) | (std::uint64_t{gpu_id} << kGpuShift & kGpuMask);
}

bool is_on_kfd(const kfd_criu_bo_bucket& bo) {
  constexpr std::uint32_t kOnKfd =
      KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP;
  return (bo.alloc_flags & kOnKfd) != 0;
}

/// {0, 0} for text that is no version.
std::pair<unsigned, unsigned> version(std::string_view release) {
  std::pair<unsigned, unsigned> number{};
  const char* end = release.data() + release.size();
  const auto [dot, error] = std::from_chars(release.data(), end, number.first);
  if (error != std::errc{} || dot == end || *dot != '.') return {};
  std::from_chars(dot + 1, end, number.second);
  return number;
}

}  // namespace

const kfd_criu_bo_bucket* kfd_buffer_of(const ProcessState& state, const VmaRecord& vma) {
  const kfd_criu_bo_bucket* found = nullptr;
  for (const kfd_criu_bo_bucket& bo : state.bos) {
    if (!is_on_kfd(bo) || (bo.offset & kTypeMask) != (vma.pgoff & kTypeMask)) continue;
    const std::uint32_t id = gpu_in(vma.pgoff);
    if (id != gpu_in(bo.offset) && id != bo.gpu_id) continue;
    // Two GPUs may have exchanged their ids. Buffers are usually mapped at the GPU's own id.
    if (bo.addr == vma.start) return &bo;
    if (found == nullptr || bo.offset == vma.pgoff) found = &bo;
  }
  return found;
}

std::uint64_t kfd_map_offset(const kfd_criu_bo_bucket& restored, std::string_view release,
                             const std::function<bool(std::uint64_t)>& can_map) {
  const std::uint64_t by_gpu = restored.restored_offset;
  const std::uint64_t by_process = with_gpu(by_gpu, restored.gpu_id);
  if (by_gpu == by_process) return by_gpu;
  std::array<std::uint64_t, 2> offsets{by_gpu, by_process};
  if (version(release) >= std::pair{7u, 3u}) std::swap(offsets[0], offsets[1]);
  for (const std::uint64_t offset : offsets) {
    if (can_map(offset)) return offset;
  }
  throw Error(ErrorCode::gpu, "/dev/kfd: the pages of GPU " + std::to_string(restored.gpu_id) +
                                  " can be mapped under neither of its ids");
}

}  // namespace kfdcp
