// CRIU's end after a dump: only then its result is known, and nobody has heard of it yet.
#pragma once

#include "core/os/fd.h"

namespace kfdcp::criu {

/// Prepares hold_answer(). False when whoever started CRIU may hear of a success before CRIU ends.
/// Throws Error{io}.
bool prepare_hold();

/// Has this process tell the session its result when it exits, and wait. Whoever started CRIU gets
/// no success without a sealed image: CRIU's answer is dropped then, and the exit status is 1. A
/// failure is answered when the image is removed. Children that CRIU forks do nothing of this.
/// `lost`: the session was given up. `dies`: after a success CRIU kills the tree.
void hold_answer(UniqueFd session, bool lost, bool dies) noexcept;

}  // namespace kfdcp::criu
