// Worker threads for the slots of a ring. Another thread drives the copy engine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace kfdcp {

/// Takes slots in the order they come and hands them back when their work is done. One thread hands
/// out and takes back; work of several slots runs at once. Work that throws ends everything: work
/// that has not begun is dropped.
class SlotWorkers {
 public:
  /// `work(worker, slot)` runs in thread `worker` of `count`, at least one. Throws Error{io} when
  /// there can be no thread.
  SlotWorkers(std::size_t count, std::function<void(std::size_t, std::size_t)> work);
  /// Waits for work that has begun; the rest is dropped.
  ~SlotWorkers();
  SlotWorkers(const SlotWorkers&) = delete;
  SlotWorkers& operator=(const SlotWorkers&) = delete;

  void hand(std::size_t slot);
  /// A slot whose work is done, if there is one. Throws what the first work that failed threw.
  std::optional<std::size_t> poll();
  /// The same, but waits for it; there must be a slot that was not taken back.
  std::size_t wait();
  /// Slots handed out and not taken back.
  std::size_t busy() const { return busy_; }
  /// Time spent in wait().
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  void run(std::size_t worker);
  std::optional<std::size_t> take();  // under mutex_

  const std::function<void(std::size_t, std::size_t)> work_;
  std::size_t busy_ = 0;
  std::chrono::nanoseconds waited_{0};
  std::mutex mutex_;
  std::condition_variable to_do_changed_;
  std::condition_variable done_changed_;
  std::deque<std::size_t> to_do_;
  std::deque<std::size_t> done_;
  std::exception_ptr failure_;
  bool closed_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace kfdcp
