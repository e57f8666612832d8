// A render file with something of everything that can be saved, made by the calls under test.
#pragma once

#include <amdgpu_drm.h>

#include "core/drm/bo_list.h"
#include "core/drm/gem.h"
#include "core/drm/submission.h"

namespace kfdcp::test {

/// Gives `fd`, which is new, handles 2, 3 and 7, contexts 1 and 3, BO lists 2 and 4.
inline void fill_render_file(int fd) {
  for (int i = 0; i < 7; ++i) {
    const std::uint64_t domain = i % 2 == 0 ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT;
    const std::uint64_t flags = i == 2 ? AMDGPU_GEM_CREATE_NO_CPU_ACCESS : 0;
    drm::create_bo(fd, 0x10000u * static_cast<unsigned>(i + 1), 0x1000u << i, domain, flags);
  }
  for (const std::uint32_t handle : {1u, 4u, 5u, 6u}) drm::close_handle(fd, handle);
  drm::map_va(fd, 7, {0, 0, 0x7f0000000000, 0x70000, 0, AMDGPU_VM_PAGE_READABLE});
  drm::map_va(fd, 2, {0, 0, 0x200000, 0x1000, 0x2000, AMDGPU_VM_PAGE_WRITEABLE});
  drm::map_va(fd, 7, {0, 0, 0x400000, 0x3000, 0x1000, AMDGPU_VM_MTYPE_UC});
  GemMetadata metadata{0, 4, 5, 6, {}};
  metadata.data[0] = 0xabcd;
  drm::set_metadata(fd, 3, metadata);
  for (int i = 0; i < 3; ++i) drm::create_context(fd);
  drm::submit_nothing(fd, 1, 1, 300);
  drm::submit_nothing(fd, 3, 0, 1);
  drm::free_context(fd, 2);
  const std::uint32_t handles[] = {3};
  for (int i = 0; i < 4; ++i) drm::create_bo_list(fd, handles);
  for (const std::uint32_t list : {1u, 3u}) drm::destroy_bo_list(fd, list);
}

/// The same but for what is never the same again: the offsets.
inline RenderState comparable(RenderState state) {
  for (GemBo& bo : state.bos) bo.mmap_offset = bo.mmap_offset == 0 ? 0 : 4096;
  return state;
}

}  // namespace kfdcp::test
