#include "core/drm/render_link.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "core/os/error.h"

namespace kfdcp {

namespace {

constexpr std::size_t kPage = 4096;

std::uint64_t inode_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) == -1) throw io_error("dma-buf");
  return info.st_ino;
}

/// EACCES alone says no: what is beyond the right to map, like memory the CPU cannot see, comes
/// later (drm_gem_mmap, drivers/gpu/drm/drm_gem.c).
bool may_map(int render_fd, std::uint64_t offset) {
  void* at = ::mmap(nullptr, kPage, PROT_NONE, MAP_SHARED, render_fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return errno != EACCES;
  ::munmap(at, kPage);
  return true;
}

/// The buffers seen so far, by the two names that a buffer has.
class KnownBuffers {
 public:
  /// The BO that is known as the same buffer, or `bo`, which is known from now on. `offset` 0: the
  /// CPU must not map it.
  std::uint32_t identify(int dmabuf, std::uint32_t gpu_id, std::uint64_t offset, std::uint32_t bo) {
    const auto by_inode = by_inode_.emplace(inode_of(dmabuf), bo).first;
    if (offset != 0) {
      const std::pair name(gpu_id, offset);
      by_inode->second = by_offset_.emplace(name, by_inode->second).first->second;
    }
    return by_inode->second;
  }

 private:
  std::map<std::uint64_t, std::uint32_t> by_inode_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> by_offset_;
};

bool is_kfds(const GemMapping& mapping, const RenderState& state, const ProcessState& kfd) {
  const std::uint32_t original = state.bos[mapping.bo].original;
  return original < kfd.bos.size() && kfd.bos[original].addr == mapping.address;
}

}  // namespace

bool carries_kfd(int render_fd, std::span<const int> others,
                 std::span<const std::uint64_t> offsets) {
  return std::ranges::any_of(offsets, [&](std::uint64_t offset) {
    return may_map(render_fd, offset) &&
           std::ranges::none_of(others, [&](int other) { return may_map(other, offset); });
  });
}

void link_buffers(std::span<const LinkedFile> files, const ProcessState& state,
                  const std::vector<std::pair<std::uint32_t, UniqueFd>>& kfd_dmabufs) {
  KnownBuffers known;
  for (const auto& [index, dmabuf] : kfd_dmabufs) {
    const kfd_criu_bo_bucket& bo = state.bos[index];
    known.identify(dmabuf.get(), bo.gpu_id, bo.offset, index);
  }
  auto index = static_cast<std::uint32_t>(state.bos.size());
  for (const auto& [held, carries_kfd, gpu_id] : files) {
    RenderState& render = held->state;
    for (std::size_t i = 0; i < render.bos.size(); ++i, ++index) {
      const int dmabuf = held->dmabufs[i].get();
      const std::uint32_t same = known.identify(dmabuf, gpu_id, render.bos[i].mmap_offset, index);
      if (same != index) render.bos[i].original = same;
    }
    if (!carries_kfd) continue;
    std::erase_if(render.mappings,
                  [&](const GemMapping& mapping) { return is_kfds(mapping, render, state); });
  }
}

}  // namespace kfdcp
