#include "core/wire/held_answer.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "core/os/error.h"
#include "core/os/text_file.h"

namespace kfdcp {

namespace {

int option(int fd, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

/// Of a socketpair the peer is the process that made it, on both ends.
bool is_asked_by(int fd, pid_t asker) {
  if (option(fd, SO_DOMAIN) != AF_UNIX || option(fd, SO_TYPE) != SOCK_SEQPACKET) return false;
  ucred peer{};
  socklen_t size = sizeof peer;
  return option(fd, SO_ACCEPTCONN) == 0 &&
         ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == asker;
}

/// 0 when it is not open.
ino_t inode_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

std::optional<AskerSocket> AskerSocket::find(pid_t asker) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), ::closedir);
  if (!directory) throw io_error("/proc/self/fd");
  // The lowest: CRIU keeps a copy for notifications far above.
  int found = -1;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name(entry->d_name);
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (fd < 0 || !is_asked_by(fd, asker)) continue;
    if (found >= 0 && inode_of(found) != inode_of(fd)) return std::nullopt;
    if (found < 0 || fd < found) found = fd;
  }
  if (found < 0) return std::nullopt;
  return AskerSocket(found, inode_of(found));
}

bool AskerSocket::is_hung_up() const noexcept {
  if (inode_of(fd_) != inode_) return false;
  pollfd poller{fd_, 0, 0};
  return ::poll(&poller, 1, 0) == 1 && (poller.revents & POLLHUP) != 0;
}

std::optional<HeldAnswer> HeldAnswer::find(pid_t asker) {
  const std::optional<AskerSocket> socket = AskerSocket::find(asker);
  if (!socket) return std::nullopt;
  UniqueFd original(::fcntl(socket->fd(), F_DUPFD_CLOEXEC, 3));
  if (!original) throw io_error("socket of the container engine");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == -1) {
    throw io_error("socketpair");
  }
  return HeldAnswer(socket->fd(), std::move(original), UniqueFd(ends[0]), UniqueFd(ends[1]));
}

void HeldAnswer::hold() {
  if (::dup3(written_.get(), socket_, O_CLOEXEC) == -1) {
    throw io_error("socket of the container engine");
  }
}

bool HeldAnswer::give() noexcept {
  // An answer has a few bytes: names and numbers (images/rpc.proto of CRIU).
  std::array<char, 65536> packet;
  for (;;) {
    const ssize_t size = ::recv(kept_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (size <= 0) return true;
    const auto bytes = static_cast<std::size_t>(size);
    if (::send(original_.get(), packet.data(), bytes, MSG_NOSIGNAL) == -1) return false;
  }
}

bool answers_by_rpc() {
  // "criu swrk FD", and the title that CRIU gives itself where it can: "dump --rpc -t PID ...".
  const std::string command = read_text("/proc/self/cmdline").value_or("");
  for (const char* word : {"swrk", "service", "--rpc"}) {
    if (command.find(word) != command.npos) return true;
  }
  return false;
}

}  // namespace kfdcp
