// Events in every state, and who waits for them.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "bare_events.h"
#include "bare_held.h"
#include "bare_queue.h"
#include "core/os/error.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;

constexpr std::uint32_t kAnHour = 3'600'000;  // ms

struct State {
  std::uint32_t type;
  bool auto_reset, set;
};

constexpr State kStates[] = {
    {KFD_IOC_EVENT_SIGNAL, false, true},        {KFD_IOC_EVENT_SIGNAL, false, false},
    {KFD_IOC_EVENT_SIGNAL, true, true},         {KFD_IOC_EVENT_SIGNAL, true, false},
    {KFD_IOC_EVENT_HW_EXCEPTION, false, false}, {KFD_IOC_EVENT_DEBUG_EVENT, false, false},
};

class HeldEvents : public Holding {
 public:
  HeldEvents(const BareGpu& gpu, std::chrono::milliseconds limit);
  ~HeldEvents() override;
  const char* name() const override { return "events"; }
  void check() override;

 private:
  void start_waiters();
  void wake_waiters();
  void raise(std::uint32_t id);
  void check_states();
  void check_numbers();

  const std::chrono::milliseconds limit_;
  BareEvents events_;
  SdmaQueue queue_;  // raises events
  std::vector<std::uint32_t> ids_;
  std::uint32_t hole_ = 0;
  std::uint32_t woken_by_gpu_ = 0, set_already_ = 0, set_later_ = 0, long_wait_ = 0;
  std::vector<std::unique_ptr<BareWaiter>> waiters_;
};

HeldEvents::HeldEvents(const BareGpu& gpu, std::chrono::milliseconds limit)
    : limit_(limit), events_(gpu), queue_(gpu) {
  for (const State& state : kStates) {
    ids_.push_back(events_.create(state.type, state.auto_reset));
    if (ids_.size() == 2) hole_ = events_.create(KFD_IOC_EVENT_SIGNAL, true);
    if (state.set) expect("setting an event", events_.set(ids_.back()), 0);
  }
  woken_by_gpu_ = events_.create(KFD_IOC_EVENT_SIGNAL, true);
  set_already_ = events_.create(KFD_IOC_EVENT_SIGNAL, false);
  set_later_ = events_.create(KFD_IOC_EVENT_SIGNAL, false);
  long_wait_ = events_.create(KFD_IOC_EVENT_SIGNAL, false);
  events_.destroy(hole_);
  raise(set_already_);
  wait_until("an event that the GPU raises", limit_, [this] { return events_.take(set_already_); });
  start_waiters();
}

HeldEvents::~HeldEvents() {
  for (const std::uint32_t id : {woken_by_gpu_, set_already_, set_later_, long_wait_}) {
    events_.set(id);
  }
}

void HeldEvents::start_waiters() {
  const auto start = [this](std::vector<std::uint32_t> ids, std::uint32_t ms) {
    waiters_.push_back(std::make_unique<BareWaiter>(events_, std::move(ids), ms));
  };
  start({woken_by_gpu_}, BareWaiter::kForever);
  start({set_already_, set_later_}, BareWaiter::kForever);
  start({long_wait_}, kAnHour);
}

void HeldEvents::raise(std::uint32_t id) {
  queue_.fence(events_.slot(id), id);
  queue_.trap(id);
  queue_.ring_doorbell();
}

void HeldEvents::check() {
  for (const auto& waiter : waiters_) {
    if (waiter->returned()) throw Error(ErrorCode::corrupt, "a wait for events returned early");
  }
  check_states();
  check_numbers();
  wake_waiters();
  start_waiters();
}

void HeldEvents::check_states() {
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const State& state = kStates[i];
    const std::string what = "event " + std::to_string(ids_[i]);
    expect(what + ": set", events_.take(ids_[i]), state.set);
    expect(what + ": still set", events_.take(ids_[i]), state.set && !state.auto_reset);
    if (state.type != KFD_IOC_EVENT_SIGNAL) continue;
    expect(what + ": errno of setting it", events_.set(ids_[i]), 0);
    expect(what + ": set anew", events_.take(ids_[i]), true);
    expect(what + ": errno of resetting it", events_.reset(ids_[i]), 0);
    expect(what + ": after that", events_.take(ids_[i]), false);
    expect(what + ": seen by its age", events_.has_age(ids_[i]), true);
    if (state.set) events_.set(ids_[i]);
  }
}

void HeldEvents::check_numbers() {
  expect("errno of an event that is gone", events_.set(hole_), EINVAL);
  expect("number of a new event", events_.create(KFD_IOC_EVENT_SIGNAL, true), hole_);
  events_.destroy(hole_);
}

void HeldEvents::wake_waiters() {
  raise(woken_by_gpu_);
  events_.set(set_later_);
  events_.set(long_wait_);
  for (std::size_t i = 0; i < waiters_.size(); ++i) {
    const std::string what = "waiter " + std::to_string(i);
    wait_until(what, limit_, [&] { return waiters_[i]->returned(); });
    expect(what + ": result", waiters_[i]->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  }
  waiters_.clear();
  expect("event of a waiter that was woken", events_.take(woken_by_gpu_), false);
  events_.reset(set_later_);
  events_.reset(long_wait_);
}

}  // namespace

std::unique_ptr<Holding> hold_events(const BareGpu& gpu, std::chrono::milliseconds limit) {
  return std::make_unique<HeldEvents>(gpu, limit);
}

}  // namespace lab
