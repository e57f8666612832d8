#include "core/session_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace kfdcp {

namespace {

// A session has at most one peer for each restored task, the launcher and the plugin.
constexpr int kBacklog = 16;

/// Calls `use(socket, address, size)`, ::bind or ::connect, with a new socket.
template <class Use>
UniqueFd socket_at(const std::string& path, Use&& use) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Error(ErrorCode::io, path + ": longer than a socket path may be", ENAMETOOLONG);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket ||
      use(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == -1) {
    throw io_error(path);
  }
  return socket;
}

}  // namespace

std::string session_directory(int criu_pid) {
  return "/run/kfd-checkpoint/" + std::to_string(criu_pid);
}

std::string session_socket(int criu_pid) { return session_directory(criu_pid) + "/sock"; }

void remove_dead_session(int criu_pid) {
  ::unlink(session_socket(criu_pid).c_str());
  ::rmdir(session_directory(criu_pid).c_str());
}

UniqueFd listen_socket(const std::string& path) {
  UniqueFd socket = socket_at(path, ::bind);
  if (::listen(socket.get(), kBacklog) == -1) throw io_error(path);
  return socket;
}

UniqueFd connect_socket(const std::string& path) { return socket_at(path, ::connect); }

}  // namespace kfdcp
