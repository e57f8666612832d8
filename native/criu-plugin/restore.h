// The restore side of the plugin. All but begin_restore and end_restore runs inside a task being
// restored: in the container's namespaces and cgroup, where the lowest free descriptors are the
// application's.
#pragma once

#include <cstdint>

namespace kfdcp::criu {

/// In the main CRIU process, before any task exists: for an image with GPU state has CRIU run the
/// action script, which starts the session. Throws Error{unsupported} when CRIU cannot.
void begin_restore();

/// At the end of CRIU, in its main process: tells the session CRIU's `result`. A session that was
/// killed leaves nothing behind.
void end_restore(int result) noexcept;

/// Returns a descriptor for CRIU file `id`, or -ENOTSUP when the file is not ours. Throws Error.
int restore_file(int id);

}  // namespace kfdcp::criu
