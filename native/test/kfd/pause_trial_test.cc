#include "core/kfd/pause_trial.h"

#include <doctest/doctest.h>
#include <linux/kfd_ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "test/kfd/kfd_fakes.h"

namespace kfdcp::test {
namespace {

constexpr int kKfd = 77;
constexpr std::chrono::microseconds kNoTime{0};

/// A process that counts its pauses.
struct Process {
  int paused = 0;
  int pauses = 0;
  int fails_at = -1;    // this pause answers EBUSY
  int ignored_at = -1;  // this pause succeeds without effect
  int stuck_at = -1;    // this unpause answers EIO once
  int unpauses = 0;

  int answer(int fd, unsigned long request, void* argument) {
    if (fd != kKfd || _IOC_NR(request) != _IOC_NR(AMDKFD_IOC_CRIU_OP)) return -ENOTTY;
    const auto& args = *static_cast<kfd_ioctl_criu_args*>(argument);
    if (args.op == KFD_CRIU_OP_PROCESS_INFO) {
      const int number = pauses++;
      if (number == fails_at) {
        ++paused;  // an error after the queues were stopped
        return -EBUSY;
      }
      if (number != ignored_at) ++paused;
      return 0;
    }
    if (args.op != KFD_CRIU_OP_UNPAUSE) return -EPROTO;
    if (unpauses++ == stuck_at) return -EIO;
    if (paused == 0) return -EINVAL;
    --paused;
    return 0;
  }
};

}  // namespace

TEST_CASE("pause trial: each pause has its end") {
  Process process;
  const FakeKernel kernel([&](int fd, unsigned long request, void* argument) {
    return process.answer(fd, request, argument);
  });
  const kfd::PauseTrial trial = kfd::try_pauses(kKfd, 100, kNoTime);
  CHECK(trial.pauses == 100);
  CHECK(process.pauses == 100);
  CHECK(process.unpauses == 100);
  CHECK(process.paused == 0);
  CHECK(trial.longest_pause_us <= trial.pause_us);
}

TEST_CASE("pause trial: a failure is told, and leaves no pause") {
  struct Case {
    int Process::*when;
    std::string expected;
  };
  const Case cases[] = {
      {&Process::fails_at, "KFD PROCESS_INFO: Device or resource busy"},
      {&Process::ignored_at, "KFD UNPAUSE: the process was not paused after PROCESS_INFO"},
      {&Process::stuck_at, "KFD UNPAUSE: Input/output error"},
  };
  for (const auto& [when, expected] : cases) {
    CAPTURE(expected);
    Process process;
    process.*when = 5;
    const FakeKernel kernel([&](int fd, unsigned long request, void* argument) {
      return process.answer(fd, request, argument);
    });
    CHECK(gpu_failure([&] { kfd::try_pauses(kKfd, 100, kNoTime); }).first == expected);
    CHECK(process.pauses == 6);
    CHECK(process.paused == 0);
  }
}

TEST_CASE("pause trial: a process without KFD is refused before it is traced") {
  CHECK_THROWS_WITH_AS(kfd::try_pauses_of(::getpid(), 1, kNoTime),
                       doctest::Contains("no file of /dev/kfd"), Error);
}

}  // namespace kfdcp::test
