// All ioctls of /dev/kfd and render nodes go through here, without libdrm: the CRIU plugin must not
// depend on it.
#pragma once

#include <string>

#include "core/os/error.h"

namespace kfdcp {

/// Every call of this file goes through this pointer, so that unit tests can answer instead of a
/// kernel. Contract of ioctl(2).
using IoctlFn = int (*)(int fd, unsigned long request, void* argument);
extern IoctlFn ioctl_fn;

/// Returns 0 or the errno of the call; EINTR and EAGAIN are tried again as libhsakmt and libdrm do.
int call_device(int fd, unsigned long request, void* argument);

/// As call_device(), but asks only once: for calls that a second try would not repeat but add to.
int call_device_once(int fd, unsigned long request, void* argument);

/// As call_device(), but throws call_error().
void must_call(int fd, unsigned long request, void* argument, const std::string& what);

/// Error{gpu} "<what>: <strerror>".
Error call_error(const std::string& what, int err);

}  // namespace kfdcp
