// The socket of a session, for listening and connecting.
#pragma once

#include <string>

#include "core/os/error.h"
#include "core/os/fd.h"

namespace kfdcp {

/// Where the session of CRIU process `criu_pid` listens.
std::string session_directory(int criu_pid);
std::string session_socket(int criu_pid);
/// Where it can be watched and cancelled; src/session/control has it, too.
std::string control_socket(int criu_pid);

/// What became of a session that did not answer as it should.
struct LostSession {
  bool gone;        // nobody listens any more; its socket was removed
  std::string why;  // one sentence with the reason and the next step
};

/// To be called with the error that the session of CRIU process `criu_pid` was given up for. One
/// that is gone is cleaned away, for a later CRIU with the same pid must not take it for its own.
/// The socket of a slow or stopped one stays: it may continue one day and needs it then. Takes up
/// to half a second.
LostSession give_up_session(int criu_pid, const Error& error);

/// Removes the sockets of the session of CRIU process `criu_pid` when nobody listens there. False:
/// the session lives.
bool remove_dead_session(int criu_pid);

/// Listens at `path`, where nobody else may do so; a socket that is left of one who did is
/// replaced. Throws Error{io}.
UniqueFd listen_socket(const std::string& path);
/// Connects to the socket at `path`. With SOCK_NONBLOCK in `flags` a full queue of connections is
/// an error (EAGAIN), not a wait. Throws Error{io}.
UniqueFd connect_socket(const std::string& path, int flags = 0);

}  // namespace kfdcp
