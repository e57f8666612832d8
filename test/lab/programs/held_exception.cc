// A memory exception: what the process was told of it. All of its queues are stopped for good then
// (kfd_int_process_v9.c:event_interrupt_wq_v9 @ 6.12.117), so nothing else is held beside it.
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

constexpr std::uint64_t kNobodys = 4096;  // so low an address is

class HeldException : public Holding {
 public:
  HeldException(const BareGpu& gpu, std::chrono::milliseconds limit);
  const char* name() const override { return "exception"; }
  void check() override;

 private:
  kfd_hsa_memory_exception_data told() const;

  BareEvents events_;
  const std::uint32_t event_;
  SdmaQueue queue_;
  BareBuffer word_;  // must stay 0: the packet behind the one that stopped it
  kfd_hsa_memory_exception_data told_{};
};

HeldException::HeldException(const BareGpu& gpu, std::chrono::milliseconds limit)
    : events_(gpu),
      event_(events_.create(KFD_IOC_EVENT_MEMORY, false)),
      queue_(gpu),
      word_(gpu, KFD_IOC_ALLOC_MEM_FLAGS_GTT, 4096) {
  std::memset(word_.bytes().data(), 0, word_.bytes().size());
  queue_.copy(word_.address(64), kNobodys, 64);
  queue_.fence(word_.address(), 1);
  queue_.ring_doorbell();
  wait_until("a memory exception", limit, [this] { return events_.take(event_); });
  told_ = told();
}

kfd_hsa_memory_exception_data HeldException::told() const {
  std::vector<kfd_event_data> data(1);
  data[0].event_id = event_;
  expect("memory event", events_.wait(data, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
  return data[0].memory_exception_data;
}

void HeldException::check() {
  const kfd_hsa_memory_exception_data now = told();
  if (std::memcmp(&now, &told_, sizeof now) != 0) {
    throw Error(ErrorCode::corrupt, "the memory exception is another one");
  }
  expect("packet behind a memory exception", load(*word_.words()), 0);
}

}  // namespace

std::unique_ptr<Holding> hold_exception(const BareGpu& gpu, std::chrono::milliseconds limit) {
  return std::make_unique<HeldException>(gpu, limit);
}

}  // namespace lab
