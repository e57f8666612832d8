// Starting a session that is independent of the container engine, CRIU and the container.
#pragma once

#include <string>
#include <vector>

namespace kfdcp::launcher {

/// Runs `command` as a daemon: in a cgroup of its own, in a session of its own, with no descriptor
/// of the caller. Its descriptor 3 is a pipe. Returns everything that it writes there before
/// closing it. Empty when it died without an answer. Throws Error{io} (ETIMEDOUT after
/// `timeout_ms`).
std::string start_daemon(const std::vector<std::string>& command, int timeout_ms);

/// Moves the calling process to the top-level cgroup "kfd-checkpoint" of every hierarchy. Under
/// runc, CRIU and its scripts sit in the container's cgroup on restore: its memory limit and device
/// rules would bind the session, and a lingering process would block the cgroup's removal. Where
/// that cgroup cannot take it, to the top of the hierarchy.
void leave_cgroup();

}  // namespace kfdcp::launcher
