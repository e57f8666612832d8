#include "criu-plugin/task_session.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "core/os/error.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
#include "criu-plugin/abi.h"
#include "criu-plugin/log.h"
#include "criu-plugin/request.h"

namespace kfdcp::criu {

namespace {

/// Comes back to the working directory it was made in.
class WorkingDirectory {
 public:
  WorkingDirectory() : here_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (!here_) throw io_error("working directory");
  }
  ~WorkingDirectory() {
    if (::fchdir(here_.get()) == -1) log_error("cannot return to the working directory");
  }

 private:
  UniqueFd here_;
};

}  // namespace

/// The task sees neither the host's files nor its abstract sockets, but it inherits a descriptor of
/// the host's /proc, and /proc/PID/root of CRIU leads to the session. Which service descriptor that
/// is differs between versions (4 to 8 in 4.0 to 4.2), so it is recognised by what it leads to.
UniqueFd connect_session(int criu_pid) {
  const std::string relative = std::to_string(criu_pid) + "/root" + session_socket(criu_pid);
  const WorkingDirectory restore_directory;
  for (int type = 4; type <= 8; ++type) {
    const int fd = service_descriptor(type);
    struct statfs info {};
    if (fd < 0 || ::fstatfs(fd, &info) == -1 || info.f_type != PROC_SUPER_MAGIC) continue;
    if (::fchdir(fd) == -1 || ::access(relative.c_str(), F_OK) == -1) continue;
    return connect_socket(relative);
  }
  throw Error(ErrorCode::io, "no session is running for this restore: " + session_socket(criu_pid),
              ENOENT);
}

UniqueFd render_file(int socket, std::uint64_t ordinal, std::uint64_t gpu_id, std::uint64_t which) {
  Message known = request(socket, MessageType::render_file, {ordinal, gpu_id, which});
  if (known.fds.size() == 1) return std::move(known.fds[0]);
  UniqueFd render(::open(known.text.c_str(), O_RDWR | O_CLOEXEC));
  if (!render) throw io_error(known.text + " in the container");
  request(socket, MessageType::render_opened, {ordinal, gpu_id, which}, {render.get()});
  return render;
}

}  // namespace kfdcp::criu
