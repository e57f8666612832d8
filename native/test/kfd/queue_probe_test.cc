// The probe of RESTORE against kernels that are played: in the children it forks.
#include "core/kfd/queue_probe.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "test/kfd/kfd_fakes.h"
#include "test/os/open_descriptors.h"

namespace kfdcp::test {
namespace {

constexpr std::uint32_t kGpu = 0x4a1;
const std::vector<kfd::ProbeGpu> kGpus = {{0x123, "/dev/null"}, {kGpu, "/dev/zero"}};

/// copy_from_user(): false when the memory cannot be read.
bool readable(std::uint64_t address, std::size_t bytes) {
  int ends[2];
  if (::pipe(ends) != 0) return false;
  const bool copied = ::write(ends[1], at<void>(address), bytes) == static_cast<ssize_t>(bytes);
  ::close(ends[0]);
  ::close(ends[1]);
  return copied;
}

std::uint32_t word(std::uint64_t address) {
  std::uint32_t value = 0;
  std::memcpy(&value, at<void>(address), sizeof value);
  return value;
}

/// As kfd_criu_restore_queue: -errno, in its order. `limit`: what the kernel compares with; 0: with
/// nothing. EPROTO: a call that no kernel is to get.
int restore(unsigned long request, void* argument, std::uint32_t limit) {
  const auto& args = *static_cast<kfd_ioctl_criu_args*>(argument);
  if (request != AMDKFD_IOC_CRIU_OP || args.op != KFD_CRIU_OP_RESTORE) return -EPROTO;
  if (args.num_bos != 0 || args.num_objects != 1 || args.num_devices != 2) return -EPROTO;
  const auto* devices = at<kfd_criu_device_bucket>(args.devices);
  for (int i = 0; i < 2; ++i) {
    if (devices[i].actual_gpu_id != kGpus[static_cast<std::size_t>(i)].gpu_id) return -EPROTO;
    if (::fcntl(static_cast<int>(devices[i].drm_fd), F_GETFD) < 0) return -EPROTO;
  }
  const std::uint64_t record = args.priv_data + 8 + std::uint64_t{8} * args.num_devices;
  if (!readable(args.priv_data, record + 120 - args.priv_data)) return -EPROTO;
  if (word(args.priv_data) != 1 || word(record) != 0 || word(record + 64) != kGpu) return -EPROTO;
  const std::uint32_t bytes = word(record + 112);
  if (limit != 0 && bytes != limit) return -EINVAL;
  if (record + 120 + bytes > args.priv_data + args.priv_data_size) return -EINVAL;
  return readable(record + 120, bytes) ? -EPROTO : -EFAULT;
}

kfd::Taken probe(const FakeKernel::Answer& kernel) {
  const FakeKernel fake(kernel);
  return kfd::restore_takes(kGpus, {kGpu, 0, 2048, 8 * 2048}, "/dev/null");
}

}  // namespace

TEST_CASE("queue probe: a kernel that compares with one die does not take eight") {
  const std::size_t before = open_descriptors();
  CHECK(probe([](int, unsigned long request, void* args) {
          return restore(request, args, 2048);
        }) == kfd::Taken::no);
  CHECK(open_descriptors() == before);
}

TEST_CASE("queue probe: a kernel that compares with nothing, or with all dies, takes eight") {
  for (const std::uint32_t limit : {0U, 8U * 2048}) {
    CHECK(probe([=](int, unsigned long request, void* args) {
            return restore(request, args, limit);
          }) == kfd::Taken::yes);
  }
}

TEST_CASE("queue probe: any other answer tells nothing") {
  for (const int err : {EACCES, ENOMEM, EINVAL, ENOTTY}) {
    CHECK(probe([=](int, unsigned long, void*) { return -err; }) == kfd::Taken::unknown);
  }
  CHECK(probe([](int, unsigned long, void*) { return 0; }) == kfd::Taken::unknown);
  CHECK(kfd::restore_takes({{kGpu, "/nowhere/renderD128"}}, {kGpu, 0, 2048, 4096}, "/dev/null") ==
        kfd::Taken::unknown);
}

}  // namespace kfdcp::test
