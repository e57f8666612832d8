// A trial of pauses: the queues of a process are stopped and run again, over and over.
#pragma once

#include <chrono>
#include <cstdint>

namespace kfdcp::kfd {

/// Times of the two calls, microseconds.
struct PauseTrial {
  unsigned pauses = 0;
  std::uint64_t pause_us = 0;  // of all
  std::uint64_t longest_pause_us = 0;
  std::uint64_t unpause_us = 0;  // of all
  std::uint64_t longest_unpause_us = 0;
};

/// Calls PROCESS_INFO and UNPAUSE `times` times, with `between` for the queues to run in. The
/// caller is the thread that traces the owner of `kfd_fd`. However it ends, the process is not
/// paused. Throws Error{gpu}, also when a pause did not happen.
PauseTrial try_pauses(int kfd_fd, unsigned times, std::chrono::microseconds between);

/// The same for process `pid`, which opened /dev/kfd. It is traced meanwhile. Throws Error{io} when
/// it is gone or cannot be traced, Error{unsupported} when it has no file of /dev/kfd.
PauseTrial try_pauses_of(int pid, unsigned times, std::chrono::microseconds between);

}  // namespace kfdcp::kfd
