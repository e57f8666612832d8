// Named points at which a process of the test build can be held (test/faults). A release build has
// nothing of them.
#pragma once

namespace kfdcp {

#ifdef KFD_STAGES
/// Waits here while /run/kfd-checkpoint-stages has a file of this name, "SIDE.POINT", two minutes
/// at most. native/stages/stage.cc
void stage(const char* side, const char* point) noexcept;
#else
inline void stage(const char* /*side*/, const char* /*point*/) noexcept {}
#endif

}  // namespace kfdcp
