#include "core/transfer/slot_workers.h"

#include <string>
#include <system_error>
#include <utility>

#include "core/os/error.h"

namespace kfdcp {
SlotWorkers::SlotWorkers(std::size_t count, std::function<void(std::size_t, std::size_t)> work)
    : work_(std::move(work)) {
  try {
    for (std::size_t worker = 0; worker < count; ++worker) {
      threads_.emplace_back([this, worker] { run(worker); });
    }
  } catch (const std::system_error& error) {
    if (!threads_.empty()) return;  // fewer do as well
    throw Error(ErrorCode::io, std::string("thread: ") + error.what(), error.code().value());
  }
}

SlotWorkers::~SlotWorkers() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  to_do_changed_.notify_all();
  threads_.clear();  // joins, while what they use is there
}

void SlotWorkers::hand(std::size_t slot) {
  {
    const std::lock_guard lock(mutex_);
    to_do_.push_back(slot);
  }
  ++busy_;
  to_do_changed_.notify_one();
}

std::optional<std::size_t> SlotWorkers::take() {
  if (failure_) std::rethrow_exception(failure_);
  if (done_.empty()) return std::nullopt;
  const std::size_t slot = done_.front();
  done_.pop_front();
  --busy_;
  return slot;
}

std::optional<std::size_t> SlotWorkers::poll() {
  const std::lock_guard lock(mutex_);
  return take();
}

std::size_t SlotWorkers::wait() {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  done_changed_.wait(lock, [this] { return failure_ || !done_.empty(); });
  waited_ += std::chrono::steady_clock::now() - begin;
  return *take();
}

void SlotWorkers::run(std::size_t worker) {
  for (;;) {
    std::size_t slot = 0;
    {
      std::unique_lock lock(mutex_);
      to_do_changed_.wait(lock, [this] { return closed_ || failure_ || !to_do_.empty(); });
      if (closed_ || failure_) return;
      slot = to_do_.front();
      to_do_.pop_front();
    }
    std::exception_ptr failure;
    try {
      work_(worker, slot);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      if (failure && !failure_) failure_ = failure;
      if (!failure) done_.push_back(slot);
    }
    if (failure) to_do_changed_.notify_all();
    done_changed_.notify_one();
  }
}

}  // namespace kfdcp
