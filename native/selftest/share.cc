#include "selftest/share.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/os/error.h"

namespace kfdcp::selftest {
namespace {

constexpr std::size_t kSharedBytes = std::size_t{4} << 20;
/// What tells its contents from those of other parts.
constexpr std::uint64_t kKey = 0x6000'0000;

std::uint64_t key_of(std::uint64_t seed, std::uint64_t generation) {
  return (seed << 32) + kKey + generation;
}

struct Order {
  std::uint64_t bytes;  // of a buffer that comes with it; 0: none comes
  std::uint64_t generation;
};

/// An empty text: all is well.
struct Answer {
  char problem[256];
};

/// Whole messages on a socket of packets; `fd`: a descriptor beside it, or -1. False at the end.
bool send_message(int socket, const void* bytes, std::size_t size, int fd) {
  iovec part{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(size);
}

bool receive_message(int socket, void* bytes, std::size_t size, UniqueFd& fd) {
  iovec part{bytes, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received;
  do {
    received = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_type != SCM_RIGHTS) continue;
    int passed = -1;
    std::memcpy(&passed, CMSG_DATA(header), sizeof passed);
    fd = UniqueFd(passed);
  }
  return received == static_cast<ssize_t>(size);
}

/// What the partner does: it opens the GPU itself, with the first order.
class Child {
 public:
  Child(const Places& places, unsigned minor, std::uint64_t seed)
      : seed_(seed), kfd_(places), gpu_(kfd_, minor), mover_(gpu_) {}

  void obey(const Order& order, const UniqueFd& dmabuf) {
    if (order.bytes != 0) {
      buffer_.reset();
      buffer_.emplace(Buffer::imported(gpu_, dmabuf.get(), order.bytes));
      return;
    }
    const Buffer& buffer = buffer_.value();
    mover_.check("shared buffer, in the other process", buffer.address(), buffer.size(),
                 key_of(seed_, order.generation));
    mover_.write(buffer.address(), buffer.size(), key_of(seed_, order.generation + 1));
  }

 private:
  const std::uint64_t seed_;
  Kfd kfd_;
  Gpu gpu_;
  Mover mover_;
  std::optional<Buffer> buffer_;
};

void serve(int socket, const Places& places, unsigned minor, std::uint64_t seed) {
  std::optional<Child> child;
  for (;;) {
    Order order{};
    UniqueFd dmabuf;
    if (!receive_message(socket, &order, sizeof order, dmabuf)) return;
    Answer answer{};
    try {
      if (!child) child.emplace(places, minor, seed);
      child->obey(order, dmabuf);
    } catch (const std::exception& error) {
      std::strncpy(answer.problem, error.what(), sizeof answer.problem - 1);
    }
    if (!send_message(socket, &answer, sizeof answer, -1)) return;
  }
}

void ask(int socket, const Order& order, int fd) {
  Answer answer{};
  UniqueFd none;
  if (!send_message(socket, &order, sizeof order, fd) ||
      !receive_message(socket, &answer, sizeof answer, none)) {
    throw Error(ErrorCode::gpu, "the other process is gone");
  }
  if (answer.problem[0] != 0) throw Error(ErrorCode::corrupt, answer.problem);
}

}  // namespace

Partner::Partner(const Places& places, unsigned minor, std::uint64_t seed) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw io_error("socketpair");
  }
  socket_ = UniqueFd(ends[0]);
  UniqueFd theirs(ends[1]);
  child_ = ::fork();
  if (child_ < 0) throw io_error("fork");
  if (child_ > 0) return;
  socket_ = UniqueFd();
  serve(theirs.get(), places, minor, seed);
  ::_exit(0);
}

Partner::~Partner() {
  socket_ = UniqueFd();
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Partner::give(int dmabuf, std::uint64_t bytes) const {
  ask(socket_.get(), {bytes, 0}, dmabuf);
}

void Partner::advance(std::uint64_t generation) const { ask(socket_.get(), {0, generation}, -1); }

Shared::Shared(Gpu& gpu, Mover& mover, const Partner& partner, std::uint64_t seed)
    : mover_(mover), partner_(partner), seed_(seed), buffer_(Buffer::vram(gpu, kSharedBytes)) {
  mover_.write(buffer_.address(), buffer_.size(), key_of(seed_, 0));
  partner_.give(buffer_.export_dmabuf().get(), buffer_.size());
}

void Shared::verify() {
  mover_.check("shared buffer", buffer_.address(), buffer_.size(), key_of(seed_, generation_));
  partner_.advance(generation_);
  mover_.check("shared buffer, after the other process", buffer_.address(), buffer_.size(),
               key_of(seed_, generation_ + 1));
  mover_.write(buffer_.address(), buffer_.size(), key_of(seed_, generation_ + 2));
  generation_ += 2;
}

}  // namespace kfdcp::selftest
