// The cgroups of sessions.
#pragma once

#include <string>

namespace kfdcp::launcher {

/// Moves the process `pid`, or the calling one, out of its cgroups. Under runc, CRIU and its
/// scripts sit in the container's cgroup on restore: its memory limit and device rules would bind
/// the session, and a lingering process would block the cgroup's removal.
///
/// In the hierarchy of version 2 it goes to the cgroup "kfd-checkpoint/NAME", which the session
/// limits and removes (src/session/own-cgroup.ts). Those of killed sessions are removed here. In
/// every hierarchy of version 1 it goes to "kfd-checkpoint". Where these cannot take it, it goes to
/// the top of the hierarchy.
void leave_cgroup(const std::string& name, const std::string& pid = "0");

}  // namespace kfdcp::launcher
