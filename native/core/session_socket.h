// Where a session listens, and how it is reached.
#pragma once

#include <string>

#include "core/fd.h"

namespace kfdcp {

/// Where the session of CRIU process `criu_pid` listens.
std::string session_directory(int criu_pid);
std::string session_socket(int criu_pid);
/// Takes away what a session that was killed leaves there; a later CRIU with the same pid must not
/// take it for its own.
void remove_dead_session(int criu_pid);

/// Listens at `path`, which must not exist. Throws Error{io}.
UniqueFd listen_socket(const std::string& path);
/// Connects to the socket at `path`. Throws Error{io}.
UniqueFd connect_socket(const std::string& path);

}  // namespace kfdcp
