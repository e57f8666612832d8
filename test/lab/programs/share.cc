#include "share.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "core/error.h"
#include "peer.h"
#include "stop.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;
using kfdcp::io_error;

constexpr std::size_t kBytes = std::size_t{4} << 20;

class HeldShare : public Holding {
 public:
  HeldShare(const Runtime& runtime, Dma& dma, const Pattern& pattern, const Peer& peer)
      : dma_(dma), pattern_(pattern), peer_(peer), buffer_(runtime, runtime.vram(), kBytes) {
    dma_.fill(buffer_.bytes(), pattern_, kShared);
    peer_.import(export_dmabuf(buffer_));
    check();
  }

  const char* name() const override { return "share"; }

  void check() override {
    dma_.verify(buffer_.bytes(), pattern_, kShared + generation_);
    peer_.advance(generation_);
    dma_.verify(buffer_.bytes(), pattern_, kShared + generation_ + 1);
    dma_.fill(buffer_.bytes(), pattern_, kShared + generation_ + 2);
    peer_.advance(generation_ + 2);
    generation_ += 3;
  }

 private:
  Dma& dma_;
  const Pattern& pattern_;
  const Peer& peer_;
  PoolBuffer buffer_;
  std::uint32_t generation_ = 0;
};

}  // namespace

Peer::Peer(std::uint64_t seed, std::chrono::milliseconds limit) : limit_(limit) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw io_error("socketpair");
  socket_ = kfdcp::UniqueFd(ends[0]);
  kfdcp::UniqueFd far_end(ends[1]);
  pid_ = fork();
  if (pid_ < 0) throw io_error("fork");
  if (pid_ > 0) return;
  socket_ = {};
  _exit(run_peer(far_end.get(), seed, limit));
}

Peer::~Peer() {
  socket_ = {};  // the peer ends when its socket does
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

void Peer::import(const kfdcp::UniqueFd& dmabuf) const {
  PeerRequest request{PeerRequest::kImport, 0};
  iovec data{&request, sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = dmabuf.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != sizeof request) throw io_error("peer");
  receive_reply();
}

void Peer::advance(std::uint32_t generation) const {
  const PeerRequest request{PeerRequest::kAdvance, generation};
  if (send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request) {
    throw io_error("peer");
  }
  receive_reply();
}

void Peer::receive_reply() const {
  // Slices, for the reason given in Signal::wait_done.
  constexpr std::chrono::milliseconds kSlice{200};
  pollfd readable{socket_.get(), POLLIN, 0};
  for (std::chrono::milliseconds waited{0}; poll(&readable, 1, kSlice.count()) <= 0;
       waited += kSlice) {
    throw_if_stopping("peer");
    // The peer's own waits end first, with a better reason.
    if (waited >= 2 * limit_) throw Error(ErrorCode::gpu, "peer: it does not answer");
  }
  PeerReply reply{};
  if (recv(socket_.get(), &reply, sizeof reply, MSG_WAITALL) != sizeof reply) {
    throw Error(ErrorCode::gpu, "peer: it is gone");
  }
  reply.error[sizeof reply.error - 1] = '\0';
  if (reply.error[0] != '\0') throw Error(ErrorCode::gpu, std::string("peer: ") + reply.error);
}

std::unique_ptr<Holding> hold_share(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                                    const Peer& peer) {
  return std::make_unique<HeldShare>(runtime, dma, pattern, peer);
}

}  // namespace lab
