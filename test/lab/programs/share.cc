#include "share.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "core/error.h"
#include "descriptor_place.h"
#include "foreign_buffer.h"
#include "passing.h"
#include "peer.h"
#include "stop.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;
using kfdcp::io_error;

class HeldShare : public Holding {
 public:
  HeldShare(const Runtime& runtime, Dma& dma, const Pattern& pattern, const Peer& peer)
      : runtime_(runtime),
        dma_(dma),
        pattern_(pattern),
        peer_(peer),
        buffer_(runtime, runtime.vram(), kSharedBytes) {
    dma_.fill(buffer_.bytes(), pattern_, kShared);
    peer_.exchange(export_dmabuf(buffer_));
    check();
  }

  const char* name() const override { return "share"; }

  void check() override {
    dma_.verify(buffer_.bytes(), pattern_, kShared + generation_);
    peer_.advance(generation_);
    const ImportedBuffer theirs(runtime_, peer_.dmabuf());
    for (const std::span<std::byte> bytes : {buffer_.bytes(), theirs.bytes()}) {
      dma_.verify(bytes, pattern_, kShared + generation_ + 1);
      dma_.fill(bytes, pattern_, kShared + generation_ + 2);
    }
    peer_.advance(generation_ + 2);
    generation_ += 3;
  }

 private:
  const Runtime& runtime_;
  Dma& dma_;
  const Pattern& pattern_;
  const Peer& peer_;
  PoolBuffer buffer_;
  std::uint32_t generation_ = 0;
};

}  // namespace

Peer::Peer(std::uint64_t seed, std::chrono::milliseconds limit)
    : limit_(limit), place_(reserve_descriptor()) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw io_error("socketpair");
  socket_ = kfdcp::UniqueFd(ends[0]);
  kfdcp::UniqueFd far_end(ends[1]);
  pid_ = fork();
  if (pid_ < 0) throw io_error("fork");
  if (pid_ > 0) return;
  socket_ = {};
  _exit(run_peer(far_end.get(), std::move(place_), seed, limit));
}

Peer::~Peer() {
  socket_ = {};  // the peer ends when its socket does
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

void Peer::exchange(const kfdcp::UniqueFd& dmabuf) const {
  const PeerRequest request{PeerRequest::kExchange, 0};
  if (!send_passing(socket_.get(), &request, sizeof request, dmabuf.get())) throw io_error("peer");
  fill_descriptor(place_, receive_reply());
}

void Peer::advance(std::uint32_t generation) const {
  const PeerRequest request{PeerRequest::kAdvance, generation};
  if (!send_passing(socket_.get(), &request, sizeof request, -1)) throw io_error("peer");
  receive_reply();
}

kfdcp::UniqueFd Peer::receive_reply() const {
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
  kfdcp::UniqueFd passed;
  if (!receive_passed(socket_.get(), &reply, sizeof reply, passed)) {
    throw Error(ErrorCode::gpu, "peer: it is gone");
  }
  reply.error[sizeof reply.error - 1] = '\0';
  if (reply.error[0] != '\0') throw Error(ErrorCode::gpu, std::string("peer: ") + reply.error);
  return passed;
}

std::unique_ptr<Holding> hold_share(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                                    const Peer& peer) {
  return std::make_unique<HeldShare>(runtime, dma, pattern, peer);
}

}  // namespace lab
