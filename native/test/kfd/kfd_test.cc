// The KFD calls on a fake kernel: their arguments, and the use of their results.
#include "core/kfd/kfd.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "test/kfd/kfd_fakes.h"
#include "test/os/error_code.h"
#include "test/os/open_descriptors.h"

namespace kfdcp::test {
namespace {

FakeKernel criu_kernel(std::function<int(int fd, kfd_ioctl_criu_args&)> answer) {
  return FakeKernel([answer = std::move(answer)](int fd, unsigned long request, void* argument) {
    REQUIRE(request == AMDKFD_IOC_CRIU_OP);
    return answer(fd, *static_cast<kfd_ioctl_criu_args*>(argument));
  });
}

std::uint32_t new_dmabuf() {
  return static_cast<std::uint32_t>(::memfd_create("dmabuf", MFD_CLOEXEC));
}

constexpr kfd::ProcessInfo kInfo{
    .ns_pid = 7, .num_devices = 2, .num_bos = 3, .num_objects = 5, .priv_bytes = 333};

bool is_zero(const kfd_ioctl_criu_args& args, std::uint32_t op) {
  kfd_ioctl_criu_args expected{};
  expected.op = op;
  return std::memcmp(&args, &expected, sizeof args) == 0;
}

}  // namespace

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

TEST_CASE("kfd: process_info asks with nothing but the op, and hands on what it was told") {
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

TEST_CASE("kfd: checkpoint gives the numbers back and owns every dma-buf") {
  const std::size_t before = open_descriptors();
  const FakeKernel kernel = criu_kernel([&](int fd, kfd_ioctl_criu_args& args) {
    CHECK(fd == 42);
    CHECK(args.op == KFD_CRIU_OP_CHECKPOINT);
    CHECK(args.num_devices == 2);
    CHECK(args.num_bos == 3);
    CHECK(args.num_objects == 5);
    CHECK(args.priv_data_size == 333);
    for (std::uint32_t i = 0; i < 2; ++i) {
      at<kfd_criu_device_bucket>(args.devices)[i] = {100 + i, 200 + i, 9, 0};
    }
    auto* bos = at<kfd_criu_bo_bucket>(args.bos);
    for (std::uint32_t i = 0; i < 3; ++i) bos[i].size = 4096 * (i + 1);
    bos[0].dmabuf_fd = new_dmabuf();
    bos[1].dmabuf_fd = KFD_INVALID_FD;
    bos[2].dmabuf_fd = new_dmabuf();
    std::memset(at<char>(args.priv_data), 0xab, 333);
    return 0;
  });
  {
    const kfd::Checkpoint saved = kfd::checkpoint(42, kInfo);
    CHECK(saved.state.ns_pid == 7);
    CHECK(saved.state.num_objects == 5);
    REQUIRE(saved.state.devices.size() == 2);
    CHECK(saved.state.devices[1].user_gpu_id == 101);
    CHECK(saved.state.devices[1].actual_gpu_id == 201);
    CHECK(saved.state.devices[1].drm_fd == KFD_INVALID_FD);
    REQUIRE(saved.state.bos.size() == 3);
    CHECK(saved.state.bos[2].size == 3 * 4096);
    for (const auto& bo : saved.state.bos) CHECK(bo.dmabuf_fd == KFD_INVALID_FD);
    CHECK(saved.state.priv == std::vector<std::byte>(333, std::byte{0xab}));
    REQUIRE(saved.dmabufs.size() == 2);
    CHECK(saved.dmabufs[0].first == 0);
    CHECK(saved.dmabufs[1].first == 2);
    CHECK(open_descriptors() == before + 2);
    CHECK_NOTHROW(decode_state(encode_state(saved.state)));
  }
  CHECK(open_descriptors() == before);
  const auto later_step = [] {
    const kfd::Checkpoint saved = kfd::checkpoint(42, kInfo);
    throw Error(ErrorCode::io, "later");
  };
  CHECK(code_of(later_step) == ErrorCode::io);
  CHECK(open_descriptors() == before);
}

TEST_CASE("kfd: checkpoint without BOs still passes an array, which the kernel asks for") {
  const FakeKernel kernel = criu_kernel([](int, kfd_ioctl_criu_args& args) {
    CHECK(args.num_bos == 0);
    CHECK(args.devices != 0);
    CHECK(args.priv_data != 0);
    return args.bos == 0 ? -EINVAL : 0;
  });
  kfd::ProcessInfo info = kInfo;
  info.num_bos = 0;
  const kfd::Checkpoint saved = kfd::checkpoint(1, info);
  CHECK(saved.state.bos.empty());
  CHECK(saved.dmabufs.empty());
}

TEST_CASE("kfd: descriptors in the buckets of a failed checkpoint are not ours to close") {
  const UniqueFd innocent(::memfd_create("innocent", MFD_CLOEXEC));
  const FakeKernel kernel = criu_kernel([&](int, kfd_ioctl_criu_args& args) {
    at<kfd_criu_bo_bucket>(args.bos)[0].dmabuf_fd = static_cast<std::uint32_t>(innocent.get());
    return -EINVAL;
  });
  const auto [text, err] = gpu_failure([] { kfd::checkpoint(1, kInfo); });
  CHECK(text.find("KFD CHECKPOINT: Invalid argument") != std::string::npos);
  CHECK(err == EINVAL);
  CHECK(::fcntl(innocent.get(), F_GETFD) != -1);
}

TEST_CASE("kfd: restore passes state and render files, and owns every dma-buf") {
  ProcessState state;
  state.num_objects = 5;
  state.devices = {{1, 2, KFD_INVALID_FD, 0}, {3, 4, KFD_INVALID_FD, 0}};
  state.bos.resize(3);
  for (auto& bo : state.bos) bo.dmabuf_fd = 0;  // no descriptor may be closed for this
  state.priv.resize(64, std::byte{1});
  const std::size_t before = open_descriptors();
  const FakeKernel kernel = criu_kernel([&](int fd, kfd_ioctl_criu_args& args) {
    CHECK(fd == 42);
    CHECK(args.op == KFD_CRIU_OP_RESTORE);
    CHECK(args.num_devices == 2);
    CHECK(args.num_bos == 3);
    CHECK(args.num_objects == 5);
    CHECK(args.priv_data_size == 64);
    CHECK(at<std::byte>(args.priv_data) == state.priv.data());
    CHECK(at<kfd_criu_device_bucket>(args.devices)[0].drm_fd == 11);
    CHECK(at<kfd_criu_device_bucket>(args.devices)[1].drm_fd == 12);
    auto* bos = at<kfd_criu_bo_bucket>(args.bos);
    bos[1].dmabuf_fd = new_dmabuf();
    bos[1].restored_offset = 0x1000;
    return 0;
  });
  {
    const auto dmabufs = kfd::restore(42, state, {11, 12});
    REQUIRE(dmabufs.size() == 1);
    CHECK(dmabufs[0].first == 1);
    CHECK(state.bos[1].restored_offset == 0x1000);
    CHECK(state.bos[1].dmabuf_fd == KFD_INVALID_FD);
    CHECK(state.devices[0].drm_fd == KFD_INVALID_FD);
    CHECK(open_descriptors() == before + 1);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("kfd: restore wants one render file per GPU, and forgets them when it fails") {
  ProcessState state;
  state.devices.resize(2);
  state.priv.resize(8);
  int calls = 0;
  const FakeKernel kernel = criu_kernel([&](int, kfd_ioctl_criu_args& args) {
    ++calls;
    CHECK(args.bos == 0);
    CHECK(args.num_bos == 0);
    return -EPERM;
  });
  CHECK(code_of([&] { kfd::restore(1, state, {3}); }) == ErrorCode::protocol);
  CHECK(calls == 0);
  const auto [text, err] = gpu_failure([&] { kfd::restore(1, state, {3, 4}); });
  CHECK(text.find("KFD RESTORE: Operation not permitted") != std::string::npos);
  CHECK(err == EPERM);
  CHECK(state.devices[0].drm_fd == KFD_INVALID_FD);
}

TEST_CASE("kfd: unpause tells a process that was not paused from a failure") {
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

TEST_CASE("kfd: objects that changed in number are counted again, twice at most") {
  std::uint32_t objects = 5;
  int changes = 1;
  std::string ops;
  const FakeKernel kernel = criu_kernel([&](int, kfd_ioctl_criu_args& args) {
    switch (args.op) {
      case KFD_CRIU_OP_PROCESS_INFO:
        ops += 'i';
        args.pid = 7;
        args.num_devices = 2;
        args.num_bos = 3;
        args.num_objects = objects;
        args.priv_data_size = 333;
        return 0;
      case KFD_CRIU_OP_UNPAUSE:
        ops += 'u';
        return 0;
      default:
        ops += 'c';
        if (changes-- > 0) ++objects;
        return args.num_objects == objects ? 0 : -EINVAL;
    }
  });
  kfd::ProcessInfo info = kInfo;
  SUBCASE("once") {
    CHECK(kfd::checkpoint_paused(1, info).state.num_objects == 6);
    CHECK(info.num_objects == 6);
    CHECK(ops == "cuic");
  }
  SUBCASE("for ever") {
    changes = 100;
    CHECK(gpu_failure([&] { kfd::checkpoint_paused(1, info); }).second == EINVAL);
    CHECK(ops == "cuicuic");
  }
  SUBCASE("another failure is none of counting") {
    const FakeKernel other = criu_kernel([](int, kfd_ioctl_criu_args&) { return -EPERM; });
    CHECK(gpu_failure([&] { kfd::checkpoint_paused(1, info); }).second == EPERM);
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
