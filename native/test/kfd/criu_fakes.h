// A fake of KFD's ioctl AMDKFD_IOC_CRIU_OP.
#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "core/kfd/kfd.h"
#include "test/kfd/kfd_fakes.h"

namespace kfdcp::test {

inline FakeKernel criu_kernel(std::function<int(int fd, kfd_ioctl_criu_args&)> answer) {
  return FakeKernel([answer = std::move(answer)](int fd, unsigned long request, void* argument) {
    REQUIRE(request == AMDKFD_IOC_CRIU_OP);
    return answer(fd, *static_cast<kfd_ioctl_criu_args*>(argument));
  });
}

inline std::uint32_t new_dmabuf() {
  return static_cast<std::uint32_t>(::memfd_create("dmabuf", MFD_CLOEXEC));
}

inline constexpr kfd::ProcessInfo kInfo{
    .ns_pid = 7, .num_devices = 2, .num_bos = 3, .num_objects = 5, .priv_bytes = 333};

inline bool is_zero(const kfd_ioctl_criu_args& args, std::uint32_t op) {
  kfd_ioctl_criu_args expected{};
  expected.op = op;
  return std::memcmp(&args, &expected, sizeof args) == 0;
}

}  // namespace kfdcp::test
