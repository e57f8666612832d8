#include "criu-plugin/restore_render.h"

#include <map>
#include <string>

#include "core/drm/render_restore.h"
#include "core/kfd/state_file.h"
#include "core/os/error.h"
#include "core/wire/wire.h"
#include "criu-plugin/request.h"
#include "criu-plugin/task_session.h"

namespace kfdcp::criu {

std::vector<RenderOffset> restore_render_files(int socket, const ProcessState& state,
                                               const Dmabufs& kfd_dmabufs, const Dmabufs& shared) {
  std::map<std::uint32_t, int> known;  // dma-bufs of the BOs of the process
  for (const auto& [index, dmabuf] : shared) known.emplace(index, dmabuf.get());
  for (const auto& [index, dmabuf] : kfd_dmabufs) known.emplace(index, dmabuf.get());
  std::vector<Dmabufs> made;  // what `known` speaks of
  std::vector<UniqueFd> others;
  std::vector<RenderOffset> offsets;
  for (std::uint64_t position = 0;; ++position) {
    const Message answer = request(socket, MessageType::render_state, {state.ordinal, position});
    if (answer.args[0] == 0) return offsets;
    if (answer.fds.size() != 1) throw Error(ErrorCode::protocol, "no render state was sent");
    const auto gpu_id = static_cast<std::uint32_t>(answer.args[1]);
    const std::uint64_t which = answer.args[2];
    const auto first = static_cast<std::uint32_t>(answer.args[3]);
    const RenderState held = decode_render_state(read_memfd(answer.fds[0].get(), kMaxStateBytes));
    const UniqueFd file = render_file(socket, state.ordinal, gpu_id, which);
    RestoredRender render = restore_render_file(file.get(), held, [&](std::uint32_t original) {
      if (const auto found = known.find(original); found != known.end()) return found->second;
      Message other = request(socket, MessageType::shared_bo, {state.ordinal, original});
      if (other.fds.size() != 1) throw Error(ErrorCode::protocol, "no shared buffer was sent");
      others.push_back(std::move(other.fds[0]));
      return known.emplace(original, others.back().get()).first->second;
    });
    Dmabufs& own = made.emplace_back();
    for (std::uint32_t i = 0; i < held.bos.size(); ++i) {
      if (held.bos[i].mmap_offset != 0) {
        offsets.push_back({gpu_id, which, held.bos[i].mmap_offset, render.mmap_offsets[i]});
      }
      if (held.bos[i].original != kOwnBo) continue;
      known.emplace(first + i, render.dmabufs[i].get());
      own.emplace_back(first + i, std::move(render.dmabufs[i]));
    }
    send_buffers(socket, MessageType::restore_buffers, state.ordinal, own);
  }
}

}  // namespace kfdcp::criu
