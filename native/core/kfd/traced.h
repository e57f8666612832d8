// Calls that KFD obeys only from whoever traces the process.
#pragma once

#include <functional>

namespace kfdcp::kfd {

/// Runs `work` on a thread made for it that traces process `pid`, and waits for its end. KFD obeys
/// the very thread alone (kfd_chardev.c:kfd_ioctl@6.12.107 compares ptrace_parent() with the
/// caller). Only a stopped task can be detached, and the kernel detaches it when its tracer ends.
/// Throws Error{io} when it cannot be traced, and what `work` throws.
void as_tracer_of(int pid, const std::function<void()>& work);

}  // namespace kfdcp::kfd
