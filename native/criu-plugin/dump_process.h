// The GPU processes of a stopped tree: paused, and their states sent to the session.
#pragma once

#include <vector>

#include "core/survey/survey.h"

namespace kfdcp::criu {

/// Pauses all of `processes`, then sends `session` the state of each, its dma-bufs and render
/// files, and `dmabufs`. `paused` gets the KFD descriptors to unpause by, whatever fails; they are
/// the ones of `processes`. Throws Error.
void pause_and_send(int session, std::vector<GpuProcess>& processes,
                    const std::vector<HeldDmabuf>& dmabufs, std::vector<int>& paused);

}  // namespace kfdcp::criu
