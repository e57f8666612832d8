#include "core/os/device_call.h"

#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

namespace kfdcp {

namespace {

int system_ioctl(int fd, unsigned long request, void* argument) {
  return ::ioctl(fd, request, argument);
}

}  // namespace

IoctlFn ioctl_fn = system_ioctl;

int call_device(int fd, unsigned long request, void* argument) {
  int result;
  do {
    result = ioctl_fn(fd, request, argument);
  } while (result == -1 && (errno == EINTR || errno == EAGAIN));
  return result == -1 ? errno : 0;
}

int call_device_once(int fd, unsigned long request, void* argument) {
  return ioctl_fn(fd, request, argument) == -1 ? errno : 0;
}

Error call_error(const std::string& what, int err) {
  return Error(ErrorCode::gpu, what + ": " + std::strerror(err), err);
}

void must_call(int fd, unsigned long request, void* argument, const std::string& what) {
  if (const int err = call_device(fd, request, argument)) throw call_error(what, err);
}

}  // namespace kfdcp
