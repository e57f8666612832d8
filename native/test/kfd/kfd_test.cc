// The KFD calls on a fake kernel: their arguments, and the use of their results.
#include "core/kfd/kfd.h"

#include <doctest/doctest.h>

#include <cerrno>

#include "test/kfd/criu_fakes.h"

namespace kfdcp::test {

TEST_CASE("kfd: the structures have the layout of the kernel interface") {
  CHECK(sizeof(kfd_ioctl_criu_args) == 56);
  CHECK(offsetof(kfd_ioctl_criu_args, priv_data) == 16);
  CHECK(offsetof(kfd_ioctl_criu_args, priv_data_size) == 24);
  CHECK(offsetof(kfd_ioctl_criu_args, num_devices) == 32);
  CHECK(offsetof(kfd_ioctl_criu_args, pid) == 44);
  CHECK(offsetof(kfd_ioctl_criu_args, op) == 48);
  CHECK(sizeof(kfd_criu_device_bucket) == 16);
  CHECK(sizeof(kfd_criu_bo_bucket) == 48);
  CHECK(KFD_CRIU_OP_PROCESS_INFO == 0);
  CHECK(KFD_CRIU_OP_CHECKPOINT == 1);
  CHECK(KFD_CRIU_OP_UNPAUSE == 2);
  CHECK(KFD_CRIU_OP_RESTORE == 3);
  CHECK(KFD_CRIU_OP_RESUME == 4);
}

TEST_CASE("kfd: process_info asks with nothing but the op, and returns the answer") {
  int calls = 0;
  const FakeKernel kernel = criu_kernel([&](int fd, kfd_ioctl_criu_args& args) {
    ++calls;
    CHECK(fd == 42);
    CHECK(is_zero(args, KFD_CRIU_OP_PROCESS_INFO));
    args.pid = 7;
    args.num_devices = 2;
    args.num_bos = 3;
    args.num_objects = 5;
    args.priv_data_size = 1ull << 33;
    return 0;
  });
  const kfd::ProcessInfo info = kfd::process_info(42);
  CHECK(calls == 1);  // each one evicts the queues once more
  CHECK(info.ns_pid == 7);
  CHECK(info.num_devices == 2);
  CHECK(info.num_bos == 3);
  CHECK(info.num_objects == 5);
  CHECK(info.priv_bytes == 1ull << 33);
}

TEST_CASE("kfd: unpause distinguishes a process that was not paused from a failure") {
  int answer = 0;
  const FakeKernel kernel = criu_kernel([&](int, kfd_ioctl_criu_args& args) {
    CHECK(is_zero(args, KFD_CRIU_OP_UNPAUSE));
    return answer;
  });
  CHECK(kfd::unpause(1));
  answer = -EINVAL;
  CHECK_FALSE(kfd::unpause(1));
  answer = -EBADF;
  CHECK(gpu_failure([] { kfd::unpause(1); }).second == EBADF);
}

TEST_CASE("kfd: resume names the process in the argument and in the error") {
  int answer = 0;
  const FakeKernel kernel = criu_kernel([&](int, kfd_ioctl_criu_args& args) {
    CHECK(args.op == KFD_CRIU_OP_RESUME);
    CHECK(args.pid == 4711);
    args.pid = 0;
    CHECK(is_zero(args, KFD_CRIU_OP_RESUME));
    return answer;
  });
  CHECK_NOTHROW(kfd::resume(1, 4711));
  answer = -ESRCH;
  const auto [text, err] = gpu_failure([] { kfd::resume(1, 4711); });
  CHECK(text.find("4711") != std::string::npos);
  CHECK(err == ESRCH);
}

TEST_CASE("kfd: interrupted calls are tried again with the same argument") {
  for (const int interruption : {EINTR, EAGAIN}) {
    int calls = 0;
    const FakeKernel kernel = criu_kernel([&](int, kfd_ioctl_criu_args& args) {
      CHECK(is_zero(args, KFD_CRIU_OP_UNPAUSE));
      return ++calls < 3 ? -interruption : 0;
    });
    CHECK(kfd::unpause(1));
    CHECK(calls == 3);
  }
}

TEST_CASE("kfd: calls that add to an earlier try are made once, whatever interrupts them") {
  for (const int interruption : {EINTR, EAGAIN}) {
    int calls = 0;
    const FakeKernel kernel = criu_kernel([&](int, kfd_ioctl_criu_args&) {
      ++calls;
      return -interruption;
    });
    ProcessState state;
    state.devices.resize(1);
    state.priv.resize(8);
    const auto made_once = [&](auto&& call) {
      calls = 0;
      return gpu_failure(call).second == interruption && calls == 1;
    };
    CHECK(made_once([] { kfd::process_info(1); }));
    CHECK(made_once([] { kfd::checkpoint(1, kInfo); }));
    CHECK(made_once([&] { kfd::restore(1, state, {3}); }));
    CHECK(made_once([] { kfd::resume(1, 7); }));
  }
}

TEST_CASE("kfd: version") {
  int answer = 0;
  const FakeKernel kernel([&](int fd, unsigned long request, void* argument) {
    CHECK(fd == 42);
    CHECK(request == AMDKFD_IOC_GET_VERSION);
    *static_cast<kfd_ioctl_get_version_args*>(argument) = {1, 17};
    return answer;
  });
  CHECK(kfd::version(42).major == 1);
  CHECK(kfd::version(42).minor == 17);
  answer = -EPERM;
  CHECK(gpu_failure([] { kfd::version(42); }).first.find("GET_VERSION") != std::string::npos);
}

}  // namespace kfdcp::test
