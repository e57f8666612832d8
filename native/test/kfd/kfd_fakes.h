// A fake KFD.
#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "core/os/device_call.h"
#include "core/os/error.h"

namespace kfdcp::test {

/// Answers every ioctl while it lives. Returns as ioctl(2) does: -errno becomes -1 and errno.
class FakeKernel {
 public:
  using Answer = std::function<int(int fd, unsigned long request, void* argument)>;

  explicit FakeKernel(Answer answer) : old_(std::exchange(ioctl_fn, call)) {
    current() = std::move(answer);
  }
  ~FakeKernel() { ioctl_fn = old_; }

 private:
  static Answer& current() {
    static Answer answer;
    return answer;
  }
  static int call(int fd, unsigned long request, void* argument) {
    const int result = current()(fd, request, argument);
    if (result >= 0) return result;
    errno = -result;
    return -1;
  }

  IoctlFn old_;
};

/// What an ioctl has at a user address.
template <class T>
T* at(std::uint64_t address) {
  return reinterpret_cast<T*>(address);
}

/// The Error{gpu} of `work`; text empty when it did not throw.
template <class Work>
std::pair<std::string, int> gpu_failure(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code == ErrorCode::gpu) return {error.what(), error.err};
  }
  return {};
}

}  // namespace kfdcp::test
