#include "core/wire/session_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/os/error.h"
#include "core/wire/contents_link.h"

namespace kfdcp {

namespace {

// A session has at most one peer for each restored task, the launcher and the plugin.
constexpr int kBacklog = 16;

/// Calls `use(socket, address, size)`, ::bind or ::connect, with a new socket.
template <class Use>
UniqueFd socket_at(const std::string& path, Use&& use, int flags = 0) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Error(ErrorCode::io, path + ": longer than a socket path may be", ENAMETOOLONG);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!socket ||
      use(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == -1) {
    throw io_error(path);
  }
  return socket;
}

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// The descriptors of a killed process close in sequence: its connection may end before its
// listening socket.
constexpr auto kEnding = 500ms;

/// Asked of the kernel, since a session that is stopped, or at work, cannot say so itself. A full
/// queue of connections (EAGAIN) belongs to somebody who listens.
bool nobody_listens(const std::string& path) {
  try {
    connect_socket(path, SOCK_NONBLOCK);
  } catch (const Error& error) {
    return error.err == ECONNREFUSED || error.err == ENOENT;
  }
  return false;
}

}  // namespace

std::string session_directory(int criu_pid) {
  return "/run/kfd-checkpoint/" + std::to_string(criu_pid);
}

std::string session_socket(int criu_pid) { return session_directory(criu_pid) + "/sock"; }

std::string control_socket(int criu_pid) { return session_directory(criu_pid) + "/control.sock"; }

bool remove_dead_session(int criu_pid) {
  if (!nobody_listens(session_socket(criu_pid))) return false;
  ::unlink(session_socket(criu_pid).c_str());
  ::unlink(control_socket(criu_pid).c_str());
  ::unlink(contents_link(criu_pid).c_str());
  ::unlink((session_directory(criu_pid) + "/owner").c_str());  // src/session/control/folders.ts
  ::rmdir(session_directory(criu_pid).c_str());
  ::rmdir(("/sys/fs/cgroup/kfd-checkpoint/" + std::to_string(criu_pid)).c_str());
  return true;
}

LostSession give_up_session(int criu_pid, const Error& error) {
  const auto deadline = Clock::now() + (error.err == ETIMEDOUT ? 0ms : kEnding);
  bool gone = remove_dead_session(criu_pid);
  while (!gone && Clock::now() < deadline) {
    std::this_thread::sleep_for(10ms);
    gone = remove_dead_session(criu_pid);
  }
  return {gone, (gone ? "the session died: " : "the session did not answer: ") +
                    std::string(error.what()) +
                    "; see its log in /var/log/kfd-checkpoint, or where log_dir says"};
}

UniqueFd listen_socket(const std::string& path) {
  // Left by a killed session whose CRIU had the same pid.
  struct stat info {};
  const bool is_socket = ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
  if (is_socket && nobody_listens(path)) ::unlink(path.c_str());
  UniqueFd socket = socket_at(path, ::bind);
  if (::listen(socket.get(), kBacklog) == -1) throw io_error(path);
  return socket;
}

UniqueFd connect_socket(const std::string& path, int flags) {
  return socket_at(path, ::connect, flags);
}

}  // namespace kfdcp
