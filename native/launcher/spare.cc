#include "launcher/spare.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
#include "launcher/cgroup.h"
#include "launcher/daemon.h"

namespace kfdcp::launcher {

namespace {

/// src/session/spare.ts has it, too.
constexpr char kSpareSocket[] = "/run/kfd-checkpoint/spare.sock";
/// A spare session has nothing else to do, and answers at once, but on a host that is very busy.
/// One that is stopped must not delay CRIU for long.
constexpr int kAnswerMs = 5000;

/// What a spare session must have seen at its own start. A program that was replaced has another
/// inode or time of change. Paths and pids mean the same only in the same namespaces.
std::string agreement(const std::string& program) {
  struct stat info {};
  if (::stat(program.c_str(), &info) == -1) throw io_error(program);
  std::string text = std::to_string(info.st_ino) + " " + std::to_string(info.st_ctim.tv_sec) + " " +
                     std::to_string(info.st_ctim.tv_nsec);
  for (const char* kind : {"mnt", "pid"}) {
    text += " " + std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind).string();
  }
  return text;
}

pid_t listener_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == -1 ||
      credentials.uid != 0) {
    throw Error(ErrorCode::protocol, "spare session: not root's");
  }
  return credentials.pid;
}

/// The end of the pipe that the spare session writes into. Throws std::exception: it has not begun.
UniqueFd hand_over(const std::string& program, const Work& work, const std::string& name) {
  const UniqueFd socket = connect_socket(kSpareSocket, SOCK_NONBLOCK);
  send_message(socket.get(), MessageType::spare_wanted, {}, agreement(program), {});
  const Message answer = expect_message(socket.get(), kAnswerMs);
  if (answer.type != MessageType::ok) throw Error(ErrorCode::protocol, answer.text);
  leave_cgroup(name, std::to_string(listener_of(socket.get())));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) == -1) throw io_error("pipe");
  UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  const std::uint64_t is_restore = work.operation == "restore" ? 1 : 0;
  send_message(socket.get(), MessageType::spare_begin,
               {is_restore, static_cast<std::uint64_t>(work.criu_pid)}, work.image_directory,
               {writer.get()});
  return reader;
}

}  // namespace

std::optional<std::string> use_spare(const std::string& program, const Work& work,
                                     const std::string& name, int timeout_ms) {
  UniqueFd reader;
  try {
    reader = hand_over(program, work, name);
  } catch (const std::exception&) {
    // Most hosts have none. A session that is started costs time, and nothing else.
    return std::nullopt;
  }
  return session_says(reader.get(), timeout_ms);
}

}  // namespace kfdcp::launcher
