// kfd-checkpoint-launch: what the CRIU action script runs. One stage of one dump or restore:
// finds out whether a GPU is concerned, starts the session or asks it whether CRIU may go on.
// Exit status 0: go on; 1: CRIU must stop (the reason is on standard error).
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "core/error.h"
#include "core/procfs.h"
#include "core/survey.h"
#include "core/wire.h"
#include "launcher/daemon.h"

namespace {

using namespace kfdcp;

constexpr int kStartTimeoutMs = 120'000;
// Above the session's own deadline for its gate, which is the one meant to fire.
constexpr int kStageTimeoutMs = 3'600'000;

struct Stage {
  std::string name;
  std::string image_directory;  // /proc/<criu pid>/fd/<n>
  int criu_pid = -1;
  int init_pid = -1;
};

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Stage read_stage() {
  Stage stage{environment("CRTOOLS_SCRIPT_ACTION"), environment("CRTOOLS_IMAGE_DIR"), -1,
              std::atoi(environment("CRTOOLS_INIT_PID"))};
  std::sscanf(stage.image_directory.c_str(), "/proc/%d/fd/", &stage.criu_pid);
  return stage;
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

/// State or a manifest of ours in the image directory: also a half-written one must be noticed.
bool image_has_gpu_state(const Stage& stage) {
  return exists(stage.image_directory + "/kfd-manifest.json") ||
         exists(stage.image_directory + "/kfd-state-0.img");
}

std::string package_root() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0) throw io_error("/proc/self/exe");
  std::string root(path, static_cast<std::size_t>(n));
  for (int level = 0; level < 2; ++level) root.resize(root.rfind('/'));
  return root;
}

int start_session(const Stage& stage, const char* operation) {
  // The session runs little JavaScript: without a compiler it starts a quarter faster and holds no
  // memory that is both writable and executable. (Without WebAssembly V8 wants to be told so.)
  const std::string answer = launcher::start_daemon(
      {"node", "--jitless", "--no-expose-wasm", package_root() + "/dist/src/session/main.js",
       operation, std::to_string(stage.criu_pid), stage.image_directory,
       std::to_string(stage.init_pid)},
      kStartTimeoutMs);
  if (answer == "ready\n") return 0;
  std::fprintf(stderr, "Error (kfd-checkpoint): %s\n",
               answer.empty() ? "the session could not be started; see "
                                "/var/log/kfd-checkpoint/session-stderr.log"
                              : answer.c_str());
  return 1;
}

/// Tells the session how far CRIU is and waits for its word.
int ask_session(const Stage& stage) {
  Message answer;
  try {
    const UniqueFd socket = connect_socket(session_socket(stage.criu_pid));
    send_message(socket.get(), MessageType::stage, {}, stage.name, {});
    answer = expect_message(socket.get(), kStageTimeoutMs);
  } catch (const Error& error) {
    if (error.err == ETIMEDOUT) throw;
    remove_dead_session(stage.criu_pid);
    throw Error(ErrorCode::io, std::string("the session died: ") + error.what() +
                                   "; its log is in /var/log/kfd-checkpoint");
  }
  if (answer.type == MessageType::ok) return 0;
  std::fprintf(stderr, "Error (kfd-checkpoint): %s\n", answer.text.c_str());
  return 1;
}

int run(const Stage& stage) {
  if (stage.criu_pid <= 0) return 0;  // not started by CRIU: nothing to find, nothing to stop
  if (stage.name.starts_with("pre-")) remove_dead_session(stage.criu_pid);
  const bool session = exists(session_socket(stage.criu_pid));
  if (stage.name == "pre-dump") {
    return procfs::kfd_major() >= 0 && holds_gpu(stage.init_pid) ? start_session(stage, "dump") : 0;
  }
  if (stage.name == "pre-restore") {
    return image_has_gpu_state(stage) ? start_session(stage, "restore") : 0;
  }
  if (stage.name == "post-restore" && !session && image_has_gpu_state(stage)) {
    throw Error(ErrorCode::io, "the session of this restore is gone");
  }
  return session ? ask_session(stage) : 0;
}

}  // namespace

int main() {
  try {
    return run(read_stage());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "Error (kfd-checkpoint): %s\n", error.what());
    return 1;
  }
}
