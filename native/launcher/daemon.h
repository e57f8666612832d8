// Starting a session that is independent of the container engine, CRIU and the container.
#pragma once

#include <string>
#include <vector>

namespace kfdcp::launcher {

/// Runs `command` as a daemon: in a cgroup of its own with this name (leave_cgroup), in a session
/// of its own, with no descriptor of the caller. Its descriptor 3 is a pipe. Returns everything
/// that it writes there before closing it. Empty when it died without an answer. Throws Error{io}
/// (ETIMEDOUT after `timeout_ms`).
std::string start_daemon(const std::string& name, const std::vector<std::string>& command,
                         int timeout_ms);

/// Everything that a session writes into the pipe `reader` before it closes it. Throws as
/// start_daemon().
std::string session_says(int reader, int timeout_ms);

}  // namespace kfdcp::launcher
