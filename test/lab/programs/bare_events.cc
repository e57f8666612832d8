#include "bare_events.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/os/error.h"

namespace lab {
namespace {

constexpr std::size_t kPageBytes = KFD_SIGNAL_EVENT_LIMIT * sizeof(std::uint64_t);

}  // namespace

BareEvents::BareEvents(const BareGpu& gpu)
    : gpu_(gpu), page_(gpu, KFD_IOC_ALLOC_MEM_FLAGS_GTT, kPageBytes) {}

BareEvents::~BareEvents() {
  while (!ids_.empty()) destroy(ids_.back());
}

std::uint32_t BareEvents::create(std::uint32_t type, bool auto_reset) {
  kfd_ioctl_create_event_args arguments{};
  arguments.event_type = type;
  arguments.auto_reset = auto_reset;
  if (ids_.empty()) arguments.event_page_offset = page_.handle();
  gpu_.call(AMDKFD_IOC_CREATE_EVENT, &arguments, "creating an event");
  ids_.push_back(arguments.event_id);
  return arguments.event_id;
}

void BareEvents::destroy(std::uint32_t id) {
  kfd_ioctl_destroy_event_args arguments{};
  arguments.event_id = id;
  gpu_.attempt(AMDKFD_IOC_DESTROY_EVENT, &arguments);
  std::erase(ids_, id);
}

int BareEvents::set(std::uint32_t id) const {
  kfd_ioctl_set_event_args arguments{};
  arguments.event_id = id;
  return gpu_.attempt(AMDKFD_IOC_SET_EVENT, &arguments);
}

int BareEvents::reset(std::uint32_t id) const {
  kfd_ioctl_reset_event_args arguments{};
  arguments.event_id = id;
  return gpu_.attempt(AMDKFD_IOC_RESET_EVENT, &arguments);
}

std::uint32_t BareEvents::wait(std::vector<kfd_event_data>& data, std::uint32_t ms) const {
  kfd_ioctl_wait_events_args arguments{};
  arguments.events_ptr = reinterpret_cast<std::uintptr_t>(data.data());
  arguments.num_events = static_cast<std::uint32_t>(data.size());
  arguments.wait_for_all = 1;
  arguments.timeout = ms;
  gpu_.call(AMDKFD_IOC_WAIT_EVENTS, &arguments, "waiting for events");
  return arguments.wait_result;
}

bool BareEvents::take(std::uint32_t id) const {
  std::vector<kfd_event_data> data(1);
  data[0].event_id = id;
  return wait(data, 0) == KFD_IOC_WAIT_RESULT_COMPLETE;
}

bool BareEvents::has_age(std::uint32_t id) const {
  std::vector<kfd_event_data> data(1);
  data[0].event_id = id;
  data[0].signal_event_data.last_event_age = 1;  // of a new event
  return wait(data, 0) == KFD_IOC_WAIT_RESULT_COMPLETE;
}

BareWaiter::BareWaiter(const BareEvents& events, std::vector<std::uint32_t> ids, std::uint32_t ms)
    : thread_([this, &events, ids = std::move(ids), ms] {
        std::vector<kfd_event_data> data(ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) data[i].event_id = ids[i];
        try {
          result_ = events.wait(data, ms);
        } catch (const kfdcp::Error&) {
          result_ = KFD_IOC_WAIT_RESULT_FAIL;  // EINTR too: a checkpoint must not be felt
        }
      }) {}

}  // namespace lab
