// KFD's events, and threads that sleep in a wait for them.
#pragma once

#include <linux/kfd_ioctl.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "bare_gpu.h"

namespace lab {

/// The events of one process.
class BareEvents {
 public:
  /// Gives the process its event page with the first event. Throws Error{gpu}.
  explicit BareEvents(const BareGpu& gpu);
  ~BareEvents();
  BareEvents(const BareEvents&) = delete;
  BareEvents& operator=(const BareEvents&) = delete;

  /// `type` is KFD_IOC_EVENT_*. Returns its number. Throws Error{gpu}.
  std::uint32_t create(std::uint32_t type, bool auto_reset);
  void destroy(std::uint32_t id);
  /// Of a signal event. Returns 0 or an errno.
  int set(std::uint32_t id) const;
  int reset(std::uint32_t id) const;
  /// Waits up to `ms` for all events in `data`, of which each says what it has to. Returns
  /// KFD_IOC_WAIT_RESULT_*. Throws Error{gpu}.
  std::uint32_t wait(std::vector<kfd_event_data>& data, std::uint32_t ms) const;
  /// Whether one event is set. Resets it if it is of that kind.
  bool take(std::uint32_t id) const;
  /// Whether a signal event was set more often than a new one, as waits of ROCr ask: also what
  /// another wait has taken is seen.
  bool has_age(std::uint32_t id) const;
  /// GPU address that the GPU writes an event's number to before it raises it.
  std::uint64_t slot(std::uint32_t id) const { return page_.address(id * 8); }

 private:
  const BareGpu& gpu_;
  BareBuffer page_;
  std::vector<std::uint32_t> ids_;
};

/// A thread that waits once, for all of some events.
class BareWaiter {
 public:
  static constexpr std::uint32_t kForever = UINT32_MAX;

  BareWaiter(const BareEvents& events, std::vector<std::uint32_t> ids, std::uint32_t ms);
  /// They must have been set.
  ~BareWaiter() { thread_.join(); }
  BareWaiter(const BareWaiter&) = delete;
  BareWaiter& operator=(const BareWaiter&) = delete;

  bool returned() const { return result_ != kWaiting; }
  /// KFD_IOC_WAIT_RESULT_*, once it returned().
  std::uint32_t result() const { return result_; }

 private:
  static constexpr std::uint32_t kWaiting = UINT32_MAX;

  std::atomic<std::uint32_t> result_{kWaiting};
  std::thread thread_;
};

}  // namespace lab
