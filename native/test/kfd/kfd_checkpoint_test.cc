// CHECKPOINT on a fake kernel: its arguments, and the use of its results.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/kfd/kfd.h"
#include "test/kfd/criu_fakes.h"
#include "test/os/error_code.h"
#include "test/os/open_descriptors.h"

namespace kfdcp::test {

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

}  // namespace kfdcp::test
