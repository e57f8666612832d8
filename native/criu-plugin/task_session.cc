#include "criu-plugin/task_session.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "core/os/device_node.h"
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

namespace {

/// The device in the container: by the name it has on the host, or under any other name.
UniqueFd open_in_container(const std::string& path, dev_t device) {
  UniqueFd named(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const Error missing = io_error(path + " in the container");
  struct stat info {};
  if (named && ::fstat(named.get(), &info) == 0 && info.st_rdev == device) return named;
  if (const auto other = find_node("/dev", device)) {
    UniqueFd found(::open(other->c_str(), O_RDWR | O_CLOEXEC));
    if (found) return found;
    throw io_error(*other + " in the container");
  }
  if (!named) throw missing;
  return named;  // another device: the session says which
}

}  // namespace

UniqueFd render_file(int socket, std::uint64_t ordinal, std::uint64_t gpu_id, std::uint64_t which) {
  Message known = request(socket, MessageType::render_file, {ordinal, gpu_id, which});
  if (known.fds.size() == 1) return std::move(known.fds[0]);
  const dev_t device =
      makedev(static_cast<unsigned>(known.args[0]), static_cast<unsigned>(known.args[1]));
  UniqueFd render = open_in_container(known.text, device);
  request(socket, MessageType::render_opened, {ordinal, gpu_id, which}, {render.get()});
  return render;
}

}  // namespace kfdcp::criu
