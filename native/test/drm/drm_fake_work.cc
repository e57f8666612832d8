// The fake kernel's contexts, BO lists and submissions.
#include <amdgpu_drm.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "test/drm/drm_fake_parts.h"
#include "test/drm/drm_fakes.h"

namespace kfdcp::test {

/// As amdgpu_ctx.c:__amdgpu_ctx_set_stable_pstate@7.3.4: one context of the GPU holds its clocks.
int FakeDrm::set_clocks(File::Context& context, std::uint32_t level) {
  bool held = false;
  for (const auto& [fd, file] : files_) {
    for (const auto& [id, other] : file.contexts) {
      if (!other.pins_clocks) continue;
      if (&other != &context) return EBUSY;
      held = true;
    }
  }
  if (level == clocks) return 0;
  clocks = level;
  context.pins_clocks = held || level != 0;
  return 0;
}

int FakeDrm::context_call(File& file, void* argument) {
  auto& args = *static_cast<drm_amdgpu_ctx*>(argument);
  if (args.in.op == AMDGPU_CTX_OP_ALLOC_CTX) {
    args.out.alloc.ctx_id = insert_lowest(file.contexts, {});
    return 0;
  }
  const auto found = file.contexts.find(args.in.ctx_id);
  if (found == file.contexts.end()) return EINVAL;
  const std::uint32_t op = args.in.op, flags = args.in.flags;
  args = {};
  if (op == AMDGPU_CTX_OP_FREE_CTX) file.contexts.erase(found);
  if (op == AMDGPU_CTX_OP_QUERY_STATE2) args.out.state.flags = found->second.lost;
  if (op == AMDGPU_CTX_OP_GET_STABLE_PSTATE) args.out.pstate.flags = clocks;
  return op == AMDGPU_CTX_OP_SET_STABLE_PSTATE ? set_clocks(found->second, flags) : 0;
}

int FakeDrm::work_call(File& file, unsigned long request, void* argument) {
  switch (number_of(request)) {
    case DRM_COMMAND_BASE + DRM_AMDGPU_INFO: {
      const auto& args = *static_cast<drm_amdgpu_info*>(argument);
      if (args.query == AMDGPU_INFO_DEV_INFO) {
        auto& info = *at<drm_amdgpu_info_device>(args.return_pointer);
        info.virtual_address_max = 1ull << 47;
        info.high_va_offset = high_half;
        return 0;
      }
      if (args.query != AMDGPU_INFO_HW_IP_INFO || args.query_hw_ip.type > AMDGPU_HW_IP_DMA) {
        return EINVAL;
      }
      at<drm_amdgpu_info_hw_ip>(args.return_pointer)->available_rings =
          args.query_hw_ip.type == AMDGPU_HW_IP_COMPUTE ? 0 : 3;
      return 0;
    }
    case DRM_COMMAND_BASE + DRM_AMDGPU_CTX:
      return context_call(file, argument);
    case DRM_COMMAND_BASE + DRM_AMDGPU_BO_LIST: {
      auto& args = *static_cast<drm_amdgpu_bo_list*>(argument);
      if (args.in.operation == AMDGPU_BO_LIST_OP_DESTROY) {
        file.bo_lists.erase(args.in.list_handle);
        return 0;
      }
      std::set<std::uint32_t> handles;
      const auto* entries = at<const drm_amdgpu_bo_list_entry>(args.in.bo_info_ptr);
      for (std::uint32_t i = 0; i < args.in.bo_number; ++i) {
        if (!file.handles.contains(entries[i].bo_handle)) return ENOENT;
        handles.insert(entries[i].bo_handle);
      }
      if (file.bo_lists.size() >= bo_list_room) return ENOMEM;
      args.out.list_handle = insert_lowest(file.bo_lists, std::move(handles));
      return 0;
    }
    case DRM_COMMAND_BASE + DRM_AMDGPU_CS: {
      auto& args = *static_cast<drm_amdgpu_cs*>(argument);
      if (!file.contexts.contains(args.in.ctx_id)) return EINVAL;
      const auto& chunk = *at<drm_amdgpu_cs_chunk>(*at<std::uint64_t>(args.in.chunks));
      const auto& ib = *at<drm_amdgpu_cs_chunk_ib>(chunk.chunk_data);
      if (!file.mappings.contains(ib.va_start)) return EFAULT;
      args.out.handle = ++file.contexts[args.in.ctx_id].submitted[{ib.ip_type, ib.ring}];
      return 0;
    }
    default: {  // WAIT_CS
      auto& args = *static_cast<drm_amdgpu_wait_cs*>(argument);
      const auto found = file.contexts.find(args.in.ctx_id);
      if (found == file.contexts.end()) return EINVAL;
      const auto& submitted = found->second.submitted;
      const auto ring = submitted.find({args.in.ip_type, args.in.ring});
      const auto failed = found->second.failed.find({args.in.ip_type, args.in.ring});
      if (failed != found->second.failed.end()) return failed->second;
      const std::uint64_t made = ring == submitted.end() ? 0 : ring->second;
      if (args.in.handle != ~0ull && args.in.handle > made) return EINVAL;
      const bool is_latest = args.in.handle >= made;
      int& left = found->second.busy_answers;
      const bool is_busy = is_latest && left > 0 ? left-- > 0 : found->second.busy;
      args.out.status = is_busy && is_latest ? 1 : 0;
      return 0;
    }
  }
}

}  // namespace kfdcp::test
