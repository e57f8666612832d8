#include "criu-plugin/action_script.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/os/error.h"
#include "criu-plugin/abi.h"

namespace kfdcp::criu {

namespace {

/// Where "kfd-checkpoint configure" puts it (src/criu/state-folder.ts).
constexpr char kActionScript[] = "/var/lib/kfd-checkpoint/criu-action";

/// CRIU stops the tree under an alarm (--timeout, 10 s); it is not meant for the start of a
/// session.
class AlarmStopped {
 public:
  AlarmStopped() : left_s_(::alarm(0)) {}
  ~AlarmStopped() { ::alarm(left_s_); }
  AlarmStopped(const AlarmStopped&) = delete;
  AlarmStopped& operator=(const AlarmStopped&) = delete;

 private:
  unsigned left_s_;
};

}  // namespace

void add_action_script() {
  if (!add_script(kActionScript)) {
    throw Error(ErrorCode::unsupported, "this CRIU takes no action script from a plugin");
  }
}

void run_pre_dump_script() {
  const AlarmStopped no_alarm;
  // As CRIU sets them for a script (criu/action-scripts.c).
  const std::string images =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(image_directory());
  ::setenv("CRTOOLS_IMAGE_DIR", images.c_str(), 1);
  ::setenv("CRTOOLS_SCRIPT_ACTION", "pre-dump", 1);
  const bool done = run_program(kActionScript);
  ::unsetenv("CRTOOLS_SCRIPT_ACTION");
  if (!done) throw Error(ErrorCode::io, std::string(kActionScript) + ": failed at pre-dump");
}

}  // namespace kfdcp::criu
