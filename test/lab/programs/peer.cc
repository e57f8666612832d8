#include "peer.h"

#include <cstdio>
#include <exception>
#include <optional>

#include "core/error.h"
#include "descriptor_place.h"
#include "dma.h"
#include "foreign_buffer.h"
#include "passing.h"
#include "pattern.h"
#include "runtime.h"
#include "stop.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;

class SharedBuffers {
 public:
  SharedBuffers(kfdcp::UniqueFd place, std::uint64_t seed, std::chrono::milliseconds limit)
      : place_(std::move(place)), pattern_(seed), dma_(runtime_, limit) {}

  /// A dma-buf of a buffer made here, for `dmabuf`.
  kfdcp::UniqueFd exchange(const kfdcp::UniqueFd& dmabuf) {
    imported_.emplace(runtime_, dmabuf.get());
    fill_descriptor(place_, dmabuf);
    own_.emplace(runtime_, runtime_.vram(), kSharedBytes);
    dma_.fill(own_->bytes(), pattern_, kShared);
    return export_dmabuf(*own_);
  }

  void advance(std::uint32_t generation) {
    if (!own_) throw Error(ErrorCode::protocol, "advance: nothing was exchanged");
    for (const std::span<std::byte> bytes : {imported_->bytes(), own_->bytes()}) {
      dma_.verify(bytes, pattern_, kShared + generation);
      dma_.fill(bytes, pattern_, kShared + generation + 1);
    }
    const ImportedBuffer again(runtime_, place_.get());
    dma_.verify(again.bytes(), pattern_, kShared + generation + 1);
  }

 private:
  kfdcp::UniqueFd place_;
  const Runtime runtime_;
  const Pattern pattern_;
  Dma dma_;
  std::optional<ImportedBuffer> imported_;
  std::optional<PoolBuffer> own_;
};

}  // namespace

int run_peer(int socket, kfdcp::UniqueFd place, std::uint64_t seed,
             std::chrono::milliseconds limit) try {
  SharedBuffers buffers(std::move(place), seed, limit);
  PeerRequest request{};
  for (kfdcp::UniqueFd dmabuf;
       !stop_requested() && receive_passed(socket, &request, sizeof request, dmabuf);) {
    PeerReply reply{};
    kfdcp::UniqueFd own;
    try {
      if (request.verb == PeerRequest::kExchange) {
        own = buffers.exchange(dmabuf);
        dmabuf = {};
      } else {
        buffers.advance(request.generation);
      }
    } catch (const std::exception& error) {
      std::snprintf(reply.error, sizeof reply.error, "%s", error.what());
    }
    if (!send_passing(socket, &reply, sizeof reply, own.get())) break;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpu-worker: peer: %s\n", error.what());
  return 1;
}

}  // namespace lab
