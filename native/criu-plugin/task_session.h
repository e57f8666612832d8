// Messages of a task in restore to its session.
#pragma once

#include <cstdint>

#include "core/os/fd.h"

namespace kfdcp::criu {

/// Connects to the session of the restore that CRIU process `criu_pid` (in the host's pid
/// namespace) makes. Throws Error{io}.
UniqueFd connect_session(int criu_pid);

/// The render file of process `ordinal` on one GPU. `which`: 0 for the one that carries its KFD
/// memory. Whoever asks first opens it, and the session keeps a copy for the others. A file that
/// the application has or maps must be opened here: the mount of a file from outside the container
/// is unknown to CRIU at the next checkpoint. The session opens any other.
UniqueFd render_file(int socket, std::uint64_t ordinal, std::uint64_t gpu_id, std::uint64_t which);

}  // namespace kfdcp::criu
