// kfd-checkpoint-launch PACKAGE: what the CRIU action script runs. One stage of one dump or
// restore: starts the session of the package in the folder PACKAGE, or asks it whether CRIU may go
// on. The script and this program are copied out of the package by "kfd-checkpoint configure".
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "core/os/error.h"
#include "core/os/stage.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
#include "launcher/daemon.h"
#include "launcher/spare.h"

namespace {

using namespace kfdcp;

/// Exit statuses, as hooks/criu-action knows them. Neither 0 nor 1 is an answer: a damaged program
/// may end with them (the shell runs an empty file, with success).
constexpr int kGoOn = 10;
constexpr int kStop = 11;  // the reason is on standard error
constexpr int kNotAsked = 1;

constexpr int kStartTimeoutMs = 120'000;

struct Stage {
  std::string name;
  std::string image_directory;  // /proc/<criu pid>/fd/<n>
  int criu_pid = -1;
};

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Stage read_stage() {
  Stage stage{environment("CRTOOLS_SCRIPT_ACTION"), environment("CRTOOLS_IMAGE_DIR")};
  std::sscanf(stage.image_directory.c_str(), "/proc/%d/fd/", &stage.criu_pid);
  return stage;
}

/// What the session says when it is ready, or why it is not.
std::string begin_session(const launcher::Work& work, const std::string& program,
                          const std::string& node) {
  const std::string pid = std::to_string(work.criu_pid);
  if (auto said = launcher::use_spare(program, work, pid, kStartTimeoutMs)) return *said;
  // Without flags for V8: most of them, including --jitless, make V8 compile Node.js's own modules
  // again, and CRIU waits for it.
  return launcher::start_daemon(pid, {node, program, work.operation, pid, work.image_directory},
                                kStartTimeoutMs);
}

int start_session(const Stage& stage, const std::string& package, const char* operation) {
  kfdcp::stage("launcher", "starting");
  const std::string answer =
      begin_session({operation, stage.criu_pid, stage.image_directory},
                    package + "/dist/src/session/main.js", package + "/libexec/node");
  kfdcp::stage("launcher", "started");
  if (answer == "ready\n") return kGoOn;
  std::fprintf(stderr, "Error (kfd-checkpoint): %s\n",
               answer.empty() ? "the session could not be started; see "
                                "/var/log/kfd-checkpoint/session-stderr.log"
                              : answer.c_str());
  return kStop;
}

/// Reports CRIU's stage to the session and waits for its answer.
int ask_session(const Stage& stage) {
  Message answer;
  try {
    const UniqueFd socket = connect_socket(session_socket(stage.criu_pid));
    kfdcp::stage("launcher", "asking");
    send_message(socket.get(), MessageType::stage, {}, stage.name, {});
    kfdcp::stage("launcher", "asked");
    answer = expect_answer(socket.get(), kSilenceMs);
  } catch (const Error& error) {
    throw Error(error.code, give_up_session(stage.criu_pid, error).why, error.err);
  }
  kfdcp::stage("launcher", "answered");
  if (answer.type == MessageType::ok) return kGoOn;
  std::fprintf(stderr, "Error (kfd-checkpoint): %s\n", answer.text.c_str());
  return kStop;
}

int run(const Stage& stage, const std::string& package) {
  if (stage.name == "pre-dump") return start_session(stage, package, "dump");
  if (stage.name == "pre-restore") return start_session(stage, package, "restore");
  return ask_session(stage);
}

}  // namespace

int main(int argc, char** argv) {
  const Stage stage = read_stage();
  if (argc != 2 || stage.criu_pid <= 0) return kNotAsked;  // not started by our script under CRIU
  try {
    return run(stage, argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "Error (kfd-checkpoint): %s\n", describe(error).c_str());
    return kStop;
  }
}
