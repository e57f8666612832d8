// A thread that sleeps in the kernel until the GPU raises an event.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "queue.h"
#include "runtime.h"

namespace lab {

/// The thread is inside KFD's wait for events whenever poke() is not running: the state a
/// checkpoint meets in most ROCm programs.
class EventWaiter {
 public:
  /// Creates a queue to wake the thread from, and starts the thread. Throws Error{gpu}.
  explicit EventWaiter(const Runtime& runtime);
  ~EventWaiter();
  EventWaiter(const EventWaiter&) = delete;
  EventWaiter& operator=(const EventWaiter&) = delete;

  /// Lets the GPU complete the signal the thread waits for, waits until the thread woke up, and
  /// sends it back to sleep. Throws Error{gpu} when it stays asleep for `limit`.
  void poke(std::chrono::milliseconds limit);

 private:
  void run();

  ComputeQueue queue_;
  Signal signal_{1};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool awake_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace lab
