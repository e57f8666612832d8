#include "criu-plugin/sharing.h"

#include <vector>

#include "core/kfd/blob_bos.h"
#include "core/kfd/shared_bo.h"
#include "core/os/error.h"
#include "criu-plugin/request.h"

namespace kfdcp::criu {

std::vector<std::pair<std::uint32_t, UniqueFd>> import_shared(int session, int kfd_fd,
                                                              std::uint32_t ordinal,
                                                              ProcessState& state) {
  std::vector<std::pair<std::uint32_t, UniqueFd>> imported;
  std::vector<BlobBo> bos;
  for (std::uint64_t done = 0;; ++done) {
    Message answer = request(session, MessageType::import_buffer, {ordinal, done});
    if (answer.fds.empty()) return imported;
    const std::uint64_t index = answer.args[0];
    if (index >= state.bos.size()) {
      throw Error(ErrorCode::protocol, "the session named an unknown shared buffer");
    }
    if (bos.empty()) bos = blob_bos(state);
    exchange_bo(kfd_fd, state.bos[index], bos[index], answer.fds[0].get());
    state.bos[index].restored_offset = answer.args[1];
    imported.emplace_back(static_cast<std::uint32_t>(index), std::move(answer.fds[0]));
  }
}

}  // namespace kfdcp::criu
