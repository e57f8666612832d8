// Where a session has the pages files of a checkpoint, when not in the image directory.
#pragma once

#include <string>

#include "core/os/fd.h"

namespace kfdcp {

/// A link to that folder, in the folder of the session of CRIU process `criu_pid`.
/// src/session/context.ts makes it.
std::string contents_link(int criu_pid);

/// Opens that folder; none where the session has none, or where it cannot be opened. To be called
/// before the session's folder is removed.
UniqueFd open_contents(int criu_pid) noexcept;

}  // namespace kfdcp
