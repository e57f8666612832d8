#include "queue.h"

#include <atomic>
#include <cstring>

#include "core/error.h"

namespace lab {
namespace {

constexpr std::uint32_t kPackets = 64;
constexpr std::uint16_t kBarrierHeader =
    HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER |
    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;

}  // namespace

ComputeQueue::ComputeQueue(const Runtime& runtime) {
  check_hsa(hsa_queue_create(runtime.gpu(), kPackets, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, 0, 0,
                             &queue_),
            "creating an AQL queue");
}

ComputeQueue::~ComputeQueue() { hsa_queue_destroy(queue_); }

void ComputeQueue::submit_barrier(hsa_signal_t dependency, const Signal& completion) {
  const std::uint64_t index = hsa_queue_add_write_index_screlease(queue_, 1);
  if (index - hsa_queue_load_read_index_scacquire(queue_) >= queue_->size) {
    throw kfdcp::Error(kfdcp::ErrorCode::gpu, "AQL queue: it is full");
  }
  auto* slot = static_cast<hsa_barrier_and_packet_t*>(queue_->base_address) + index % queue_->size;
  hsa_barrier_and_packet_t packet{};
  packet.dep_signal[0] = dependency;
  packet.completion_signal = completion.handle();
  // The header makes the packet valid, so it is written last.
  constexpr std::size_t kBody = sizeof packet.header;
  std::memcpy(reinterpret_cast<std::byte*>(slot) + kBody,
              reinterpret_cast<const std::byte*>(&packet) + kBody, sizeof packet - kBody);
  std::atomic_ref(slot->header).store(kBarrierHeader, std::memory_order_release);
  hsa_signal_store_screlease(queue_->doorbell_signal, static_cast<hsa_signal_value_t>(index));
}

PendingBarrier::PendingBarrier(const Runtime& runtime) : queue_(runtime) { arm(); }

void PendingBarrier::arm() {
  dependency_.store(1);
  completion_.store(1);
  queue_.submit_barrier(dependency_.handle(), completion_);
}

void PendingBarrier::release(std::chrono::milliseconds limit) {
  // A dependency of 0 means an earlier release timed out: the packet may complete late, that is not
  // wrong.
  const bool first_try = hsa_signal_load_scacquire(dependency_.handle()) != 0;
  if (first_try && hsa_signal_load_scacquire(completion_.handle()) < 1) {
    throw kfdcp::Error(kfdcp::ErrorCode::gpu, "barrier: completed before its dependency was set");
  }
  dependency_.store(0);
  completion_.wait_done("barrier", limit);
  arm();
}

}  // namespace lab
