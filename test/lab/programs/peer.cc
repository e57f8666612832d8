#include "peer.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "core/os/error.h"
#include "descriptor_place.h"
#include "passing.h"
#include "stop.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;
using kfdcp::io_error;

struct Request {
  enum Verb : std::uint32_t { kExchange, kAdvance };  // kExchange carries a dma-buf, as its reply
  Verb verb;
  std::uint32_t generation;
  Note note;
};

struct Reply {
  char error[256];  // empty: done
};

}  // namespace

bool serve_peer(int socket, PeerWork& work) {
  Request request{};
  for (kfdcp::UniqueFd dmabuf;
       !stop_requested() && receive_passed(socket, &request, sizeof request, dmabuf);) {
    Reply reply{};
    kfdcp::UniqueFd own;
    try {
      if (request.verb == Request::kExchange) {
        own = work.exchange(dmabuf, request.note);
        dmabuf = {};
      } else {
        work.advance(request.generation);
      }
    } catch (const std::exception& error) {
      std::snprintf(reply.error, sizeof reply.error, "%s", error.what());
    }
    if (!send_passing(socket, &reply, sizeof reply, own.get())) return false;
  }
  return true;
}

Peer::Peer(const Main& main, std::chrono::milliseconds limit)
    : limit_(limit), place_(reserve_descriptor()) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw io_error("socketpair");
  socket_ = kfdcp::UniqueFd(ends[0]);
  kfdcp::UniqueFd far_end(ends[1]);
  pid_ = fork();
  if (pid_ < 0) throw io_error("fork");
  if (pid_ > 0) return;
  socket_ = {};
  _exit(main(far_end.get(), std::move(place_)));
}

Peer::~Peer() {
  socket_ = {};  // the peer ends when its socket does
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

void Peer::exchange(const kfdcp::UniqueFd& dmabuf, const Note& note) const {
  const Request request{Request::kExchange, 0, note};
  if (!send_passing(socket_.get(), &request, sizeof request, dmabuf.get())) throw io_error("peer");
  fill_descriptor(place_, receive_reply());
}

void Peer::advance(std::uint32_t generation) const {
  const Request request{Request::kAdvance, generation, {}};
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
  Reply reply{};
  kfdcp::UniqueFd passed;
  if (!receive_passed(socket_.get(), &reply, sizeof reply, passed)) {
    throw Error(ErrorCode::gpu, "peer: it is gone");
  }
  reply.error[sizeof reply.error - 1] = '\0';
  if (reply.error[0] != '\0') throw Error(ErrorCode::gpu, std::string("peer: ") + reply.error);
  return passed;
}

}  // namespace lab
