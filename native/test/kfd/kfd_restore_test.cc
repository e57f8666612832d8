// RESTORE on a fake kernel: its arguments, and the use of its results.
#include <doctest/doctest.h>

#include <cerrno>

#include "core/kfd/kfd.h"
#include "test/kfd/criu_fakes.h"
#include "test/os/error_code.h"
#include "test/os/open_descriptors.h"

namespace kfdcp::test {

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

TEST_CASE("kfd: restore says what EBUSY means") {
  ProcessState state;
  state.priv.resize(8);
  const FakeKernel kernel = criu_kernel([](int, kfd_ioctl_criu_args&) { return -EBUSY; });
  const auto [text, err] = gpu_failure([&] { kfd::restore(1, state, {}); });
  CHECK(text.find("KFD RESTORE: Device or resource busy; a recorded number") != std::string::npos);
  CHECK(err == EBUSY);
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

}  // namespace kfdcp::test
