#include "waiter.h"

#include <cstdint>

#include "core/os/error.h"
#include "stop.h"

namespace lab {

EventWaiter::EventWaiter(const Runtime& runtime) : queue_(runtime), thread_([this] { run(); }) {}

EventWaiter::~EventWaiter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  signal_.store(0);
  changed_.notify_all();
  thread_.join();
}

void EventWaiter::run() {
  for (;;) {
    while (hsa_signal_wait_scacquire(signal_.handle(), HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX,
                                     HSA_WAIT_STATE_BLOCKED) >= 1) {
    }
    std::unique_lock lock(mutex_);
    awake_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !awake_ || ending_; });
    if (ending_) return;
  }
}

void EventWaiter::poke(std::chrono::milliseconds limit) {
  queue_.submit_barrier(hsa_signal_t{0}, signal_);
  // The thread is counted in slices for the reason given in Signal::wait_done.
  constexpr std::chrono::milliseconds kSlice{100};
  std::unique_lock lock(mutex_);
  for (std::chrono::milliseconds waited{0}; !awake_; waited += kSlice) {
    if (waited >= limit) {
      throw kfdcp::Error(kfdcp::ErrorCode::gpu, "event waiter: its thread was not woken");
    }
    throw_if_stopping("event waiter");
    changed_.wait_for(lock, kSlice, [this] { return awake_; });
  }
  signal_.store(1);
  awake_ = false;
  changed_.notify_all();
}

}  // namespace lab
