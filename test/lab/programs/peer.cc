#include "peer.h"

#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>

#include "core/error.h"
#include "core/fd.h"
#include "dma.h"
#include "pattern.h"
#include "runtime.h"
#include "stop.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;

/// A BO of another process, mapped to this process' GPU address space.
class ImportedBuffer {
 public:
  ImportedBuffer(const Runtime& runtime, int dmabuf) {
    hsa_agent_t gpu = runtime.gpu();
    check_hsa(hsa_amd_interop_map_buffer(1, &gpu, dmabuf, 0, &size_, &base_, nullptr, nullptr),
              "importing a dma-buf");
  }
  ~ImportedBuffer() { hsa_amd_interop_unmap_buffer(base_); }
  ImportedBuffer(const ImportedBuffer&) = delete;
  ImportedBuffer& operator=(const ImportedBuffer&) = delete;

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(base_), size_}; }

 private:
  void* base_ = nullptr;
  std::size_t size_ = 0;
};

/// Returns false at the end of the conversation.
bool receive(int socket, PeerRequest& request, kfdcp::UniqueFd& dmabuf) {
  iovec data{&request, sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != sizeof request) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    dmabuf = kfdcp::UniqueFd(fd);
  }
  return true;
}

}  // namespace

int run_peer(int socket, std::uint64_t seed, std::chrono::milliseconds limit) try {
  const Runtime runtime;
  const Pattern pattern(seed);
  Dma dma(runtime, limit);
  std::optional<ImportedBuffer> buffer;
  PeerRequest request{};
  for (kfdcp::UniqueFd dmabuf; !stop_requested() && receive(socket, request, dmabuf);) {
    PeerReply reply{};
    try {
      if (request.verb == PeerRequest::kImport) {
        buffer.emplace(runtime, dmabuf.get());
        dmabuf = {};
      } else if (!buffer) {
        throw Error(ErrorCode::protocol, "advance: nothing is imported");
      } else {
        dma.verify(buffer->bytes(), pattern, kShared + request.generation);
        dma.fill(buffer->bytes(), pattern, kShared + request.generation + 1);
      }
    } catch (const std::exception& error) {
      std::snprintf(reply.error, sizeof reply.error, "%s", error.what());
    }
    if (send(socket, &reply, sizeof reply, MSG_NOSIGNAL) != sizeof reply) break;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpu-worker: peer: %s\n", error.what());
  return 1;
}

}  // namespace lab
