// The one way to the ioctls of a render node, without libdrm: the CRIU plugin must not depend on
// it.
#pragma once

#include <string>

#include "core/error.h"

namespace kfdcp::drm {

/// Every ioctl on render files whose state is read or restored goes through this pointer, so that
/// unit tests can answer instead of a kernel. Contract of ioctl(2).
using IoctlFn = int (*)(int fd, unsigned long request, void* argument);
extern IoctlFn ioctl_fn;

/// Returns 0 or the errno of the call; EINTR and EAGAIN are tried again as libdrm does.
int call(int fd, unsigned long request, void* argument);

/// As call(), but throws Error{gpu} "<what>: <strerror>".
void must(int fd, unsigned long request, void* argument, const std::string& what);

Error call_error(const std::string& what, int err);

}  // namespace kfdcp::drm
