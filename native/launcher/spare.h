// The spare session: a session's program that has started before anybody needs it, and waits
// (src/session/spare.ts). It saves CRIU the wait for the start of Node.js.
#pragma once

#include <optional>
#include <string>

namespace kfdcp::launcher {

/// What a session is started for.
struct Work {
  std::string operation;  // "dump" or "restore"
  int criu_pid = -1;
  std::string image_directory;  // /proc/<criu pid>/fd/<n>
};

/// Gives `work` to the spare session that runs `program`, in the cgroup `name` (leave_cgroup).
/// Returns what it says, as start_daemon(). nullopt: there is none, or it is not this one's. It
/// runs another release then, or in other namespaces, or is stopped. The caller starts a session.
/// Throws Error{io} (ETIMEDOUT after `timeout_ms`) when the spare session has the work.
std::optional<std::string> use_spare(const std::string& program, const Work& work,
                                     const std::string& name, int timeout_ms);

}  // namespace kfdcp::launcher
