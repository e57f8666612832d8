#include "core/kfd/pause_trial.h"

#include <algorithm>
#include <string>
#include <thread>

#include "core/kfd/kfd.h"
#include "core/kfd/traced.h"
#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/os/procfs.h"

namespace kfdcp::kfd {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t since(Clock::time_point begin) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
}

/// Ends a pause that may be left, after an error that is reported instead of one of this.
void end_silently(int kfd_fd) noexcept {
  try {
    unpause(kfd_fd);
  } catch (const Error&) {
    // The caller ends the process.
  }
}

class Paused {
 public:
  explicit Paused(int kfd_fd) : kfd_fd_(kfd_fd) {
    try {
      process_info(kfd_fd);
    } catch (...) {
      end_silently(kfd_fd);
      throw;
    }
  }
  ~Paused() {
    if (kfd_fd_ >= 0) end_silently(kfd_fd_);
  }
  Paused(const Paused&) = delete;
  Paused& operator=(const Paused&) = delete;

  void end() {
    const bool was_paused = unpause(kfd_fd_);
    kfd_fd_ = -1;
    if (was_paused) return;
    throw Error(ErrorCode::gpu, "KFD UNPAUSE: the process was not paused after PROCESS_INFO");
  }

 private:
  int kfd_fd_;
};

UniqueFd kfd_file_of(int pid) {
  const int major = procfs::kfd_major();
  for (const procfs::OpenFile& file : procfs::open_files(pid)) {
    if (!procfs::is_kfd(file.mode, file.rdev, major)) continue;
    return procfs::copy_descriptor(procfs::open_pidfd(pid).get(), file.fd);
  }
  throw Error(ErrorCode::unsupported, "pid " + std::to_string(pid) + ": no file of /dev/kfd");
}

}  // namespace

PauseTrial try_pauses(int kfd_fd, unsigned times, std::chrono::microseconds between) {
  PauseTrial trial;
  for (unsigned i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    Paused paused(kfd_fd);
    const std::uint64_t pause_us = since(begin);
    const auto middle = Clock::now();
    paused.end();
    const std::uint64_t unpause_us = since(middle);
    ++trial.pauses;
    trial.pause_us += pause_us;
    trial.unpause_us += unpause_us;
    trial.longest_pause_us = std::max(trial.longest_pause_us, pause_us);
    trial.longest_unpause_us = std::max(trial.longest_unpause_us, unpause_us);
    std::this_thread::sleep_for(between);
  }
  return trial;
}

PauseTrial try_pauses_of(int pid, unsigned times, std::chrono::microseconds between) {
  const UniqueFd kfd = kfd_file_of(pid);
  PauseTrial trial;
  as_tracer_of(pid, [&] { trial = try_pauses(kfd.get(), times, between); });
  return trial;
}

}  // namespace kfdcp::kfd
