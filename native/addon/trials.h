// Trials of copy engines and of pauses, in threads of Node.
#pragma once

#include <napi.h>

namespace kfdcp::addon {

/// JS: `tryCopies(options)` starts at once. `options`: renderNode (path), engine "sdma" | "cpu",
/// slots, slotBytes, bytes (of VRAM that it allocates), seed. Returns {done, cancel}: `done` is a
/// promise of {bytes, writeUs, readUs}; it rejects with KFD_GPU for a wrong byte, and when VRAM has
/// no room to spare. `cancel()` makes it reject with KFD_CANCELLED soon after.
/// `tryPauses(pid, times, betweenUs)`: a promise of {pauses, pauseUs, longestPauseUs, unpauseUs,
/// longestUnpauseUs}; see core/kfd/pause_trial.h.
void init_trials(Napi::Env env, Napi::Object exports);

}  // namespace kfdcp::addon
