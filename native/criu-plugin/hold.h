// CRIU's exit after a short freeze: it waits for the session's writes.
#pragma once

#include "core/os/fd.h"

namespace kfdcp::criu {

/// Has this process, when it exits, wait until the session has sealed the image: whoever started
/// CRIU reads the image when it is gone. Its exit status is 1 when there is no image in the end;
/// what CRIU has answered by then stays. Children that it forks do not wait. To be called once.
void hold_exit(UniqueFd session) noexcept;

}  // namespace kfdcp::criu
