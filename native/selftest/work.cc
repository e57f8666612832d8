#include "selftest/work.h"

#include <cstring>
#include <string>

#include "core/os/device_call.h"
#include "core/os/error.h"
#include "selftest/wait.h"

namespace kfdcp::selftest {
namespace {

constexpr std::size_t kPage = 4096;
/// Large enough that a round takes longer than it takes to give the next one.
constexpr std::size_t kCopyBytes = std::size_t{2} << 20;
constexpr std::uint32_t kRoundsAhead = 64;
/// In the page of the progress.
constexpr std::size_t kCountedAt = 64;
constexpr std::size_t kReadAt = 128;

}  // namespace

Stream::Stream(Gpu& gpu)
    : queue_(gpu),
      from_(Buffer::vram(gpu, kCopyBytes)),
      counter_(Buffer::vram(gpu, kPage)),
      to_(Buffer::gtt(gpu, kCopyBytes)),
      progress_(Buffer::gtt(gpu, kPage)) {
  std::memset(progress_.bytes().data(), 0, kPage);
  // VRAM may hold anything.
  queue_.copy(counter_.address(), progress_.address(), kPage);
  feed();
}

void Stream::feed() {
  bool fed = false;
  while (given_ - rounds() < kRoundsAhead) {
    queue_.copy(to_.address(), from_.address(), kCopyBytes);
    queue_.add(counter_.address(), 1);
    queue_.fence(progress_.address(), ++given_);
    fed = true;
  }
  if (fed) queue_.start();
}

void Stream::verify() {
  wait_until("SDMA queue", [this] { return !busy(); });
  // Only now: a copy may overtake what was written just before it, but no fence.
  queue_.copy(progress_.address(kCountedAt), counter_.address(), sizeof(std::uint64_t));
  queue_.fence(progress_.address(kReadAt), given_);
  queue_.start();
  wait_until("SDMA counter", [this] { return load(progress_.word(kReadAt)) == given_; });
  const std::uint64_t counted = load(progress_.long_word(kCountedAt));
  if (counted != given_) {
    throw Error(ErrorCode::corrupt, "SDMA queue: made " + std::to_string(counted) + " rounds of " +
                                        std::to_string(given_));
  }
  feed();
}

namespace {

constexpr std::size_t kGate = 0;
constexpr std::size_t kDone = 1;

}  // namespace

Barrier::Barrier(Gpu& gpu) : signals_(Buffer::gtt(gpu, kPage)), queue_(gpu) {
  std::memset(signals_.bytes().data(), 0, kPage);
  // First one that waits for nothing: the queue works at all.
  signal(kDone) = {1, 1, {}};
  queue_.barrier(0, address(kDone));
  wait_until("AQL queue",
             [this] { return load(reinterpret_cast<std::uint64_t&>(signal(kDone).value)) == 0; });
  arm();
}

Signal& Barrier::signal(std::size_t index) const {
  return *reinterpret_cast<Signal*>(signals_.bytes().data() + index * sizeof(Signal));
}

std::uint64_t Barrier::address(std::size_t index) const {
  return signals_.address(index * sizeof(Signal));
}

void Barrier::arm() {
  signal(kGate) = {1, 1, {}};
  signal(kDone) = {1, 1, {}};
  queue_.barrier(address(kGate), address(kDone));
}

void Barrier::verify() {
  const auto value = [this](std::size_t index) -> std::uint64_t& {
    return reinterpret_cast<std::uint64_t&>(signal(index).value);
  };
  if (load(value(kDone)) != 1) {
    throw Error(ErrorCode::corrupt, "AQL queue: a barrier did not wait for its signal");
  }
  store(value(kGate), 0);
  wait_until("AQL barrier", [&] { return load(value(kDone)) != 1; });
  if (load(value(kDone)) != 0) {
    throw Error(ErrorCode::corrupt, "AQL queue: a barrier completed more than once");
  }
  arm();
}

namespace {

constexpr std::uint32_t kForever = UINT32_MAX;
constexpr std::size_t kEventPageBytes = KFD_SIGNAL_EVENT_LIMIT * sizeof(std::uint64_t);

}  // namespace

Sleeper::Sleeper(Gpu& gpu) : gpu_(gpu), page_(Buffer::gtt(gpu, kEventPageBytes)), queue_(gpu) {
  kfd_ioctl_create_event_args arguments{};
  arguments.event_type = KFD_IOC_EVENT_SIGNAL;
  arguments.auto_reset = 1;
  arguments.event_page_offset = page_.handle();
  must_call(gpu_.kfd(), AMDKFD_IOC_CREATE_EVENT, &arguments, gpu_.name() + ": KFD CREATE_EVENT");
  event_ = arguments.event_id;
  sleep();
}

Sleeper::~Sleeper() {
  kfd_ioctl_set_event_args set{};
  set.event_id = event_;
  (void)call_device(gpu_.kfd(), AMDKFD_IOC_SET_EVENT, &set);
  thread_.join();
  kfd_ioctl_destroy_event_args destroy{};
  destroy.event_id = event_;
  (void)call_device(gpu_.kfd(), AMDKFD_IOC_DESTROY_EVENT, &destroy);
}

void Sleeper::sleep() {
  result_ = -1;
  thread_ = std::thread([this] {
    kfd_event_data event{};
    event.event_id = event_;
    kfd_ioctl_wait_events_args wait{};
    wait.events_ptr = reinterpret_cast<std::uintptr_t>(&event);
    wait.num_events = 1;
    wait.timeout = kForever;
    const int error = call_device(gpu_.kfd(), AMDKFD_IOC_WAIT_EVENTS, &wait);
    result_ = error == 0 ? static_cast<int>(wait.wait_result) : KFD_IOC_WAIT_RESULT_FAIL;
  });
}

void Sleeper::verify() {
  if (result_ != -1) {
    throw Error(ErrorCode::corrupt, "event: a wait ended before the event was raised");
  }
  queue_.fence(page_.address(event_ * sizeof(std::uint64_t)), event_);
  queue_.trap(event_);
  queue_.start();
  wait_until("event of the GPU", [this] { return result_ != -1; });
  thread_.join();
  const int result = result_;
  sleep();
  if (result != KFD_IOC_WAIT_RESULT_COMPLETE) {
    throw Error(ErrorCode::corrupt, "event: the wait for it failed");
  }
}

}  // namespace kfdcp::selftest
