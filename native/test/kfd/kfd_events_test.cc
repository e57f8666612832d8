// The age of restored events, on a fake kernel.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <map>

#include "core/kfd/kfd.h"
#include "test/kfd/kfd_fakes.h"

namespace kfdcp::test {
namespace {

/// Events as the driver has them after a restore. The call numbered `fails` fails, counted from 0.
struct RestoredEvents {
  struct Event {
    bool auto_reset = false, set = false, debug = false;
    std::uint64_t age = 0;
  };
  std::map<std::uint32_t, Event> events;
  std::uint32_t minor = 14;
  int calls = 0, fails = -1;

  int answer(unsigned long request, void* argument) {
    if (calls++ == fails) return -EBADF;
    switch (request) {
      case AMDKFD_IOC_GET_VERSION:
        *static_cast<kfd_ioctl_get_version_args*>(argument) = {1, minor};
        return 0;
      case AMDKFD_IOC_WAIT_EVENTS:
        return wait(*static_cast<kfd_ioctl_wait_events_args*>(argument));
      case AMDKFD_IOC_SET_EVENT: {
        Event* event = of_cpu(static_cast<kfd_ioctl_set_event_args*>(argument)->event_id);
        if (event == nullptr) return -EINVAL;
        event->set = true;
        ++event->age;
        return 0;
      }
      case AMDKFD_IOC_RESET_EVENT: {
        Event* event = of_cpu(static_cast<kfd_ioctl_reset_event_args*>(argument)->event_id);
        if (event == nullptr) return -EINVAL;
        event->set = false;
        return 0;
      }
      default:
        FAIL("another call: ", request);
        return -ENOTTY;
    }
  }

 private:
  Event* of_cpu(std::uint32_t id) {
    const auto found = events.find(id);
    return found == events.end() || found->second.debug ? nullptr : &found->second;
  }
  int wait(kfd_ioctl_wait_events_args& args) {
    REQUIRE(args.num_events == 1);
    CHECK(args.timeout == 0);
    const auto found = events.find(at<kfd_event_data>(args.events_ptr)->event_id);
    if (found == events.end()) return -EINVAL;
    Event& event = found->second;
    args.wait_result = event.set ? KFD_IOC_WAIT_RESULT_COMPLETE : KFD_IOC_WAIT_RESULT_TIMEOUT;
    if (event.auto_reset) event.set = false;
    return 0;
  }
};

TEST_CASE("kfd: restored events get the age of events in use, and stay set or unset") {
  RestoredEvents restored;
  for (const bool auto_reset : {false, true}) {
    for (const bool set : {false, true}) {
      const auto id = static_cast<std::uint32_t>(1 + 2 * auto_reset + set);
      restored.events[id] = {.auto_reset = auto_reset, .set = set};
    }
  }
  restored.events[9] = {.debug = true};
  restored.events[KFD_SIGNAL_EVENT_LIMIT - 1] = {};  // others before it are gone
  const auto before = restored.events;
  const FakeKernel kernel([&](int fd, unsigned long request, void* argument) {
    CHECK(fd == 42);
    return restored.answer(request, argument);
  });
  kfd::age_events(42);
  for (const auto& [id, event] : restored.events) {
    CAPTURE(id);
    CHECK(event.set == before.at(id).set);
    // 1 is the age of a new event.
    CHECK(event.age == (event.debug ? 0 : 2));
  }
}

TEST_CASE("kfd: a kernel without ages of events is asked for its version alone") {
  RestoredEvents restored;
  restored.minor = 13;
  restored.events[1] = {};
  const FakeKernel kernel([&](int, unsigned long request, void* argument) {
    return restored.answer(request, argument);
  });
  kfd::age_events(1);
  CHECK(restored.calls == 1);
}

TEST_CASE("kfd: a call on a restored event that fails is named") {
  const char* const names[] = {"GET_VERSION", "WAIT_EVENTS of event 1", "SET_EVENT of event 1",
                               "SET_EVENT of event 1", "RESET_EVENT of event 1"};
  for (int i = 0; i < 5; ++i) {
    RestoredEvents restored;
    restored.events[1] = {};
    restored.fails = i;
    const FakeKernel kernel([&](int, unsigned long request, void* argument) {
      return restored.answer(request, argument);
    });
    const auto [text, err] = gpu_failure([] { kfd::age_events(1); });
    CHECK(text.find(names[i]) != std::string::npos);
    CHECK(err == EBADF);
  }
}

}  // namespace
}  // namespace kfdcp::test
