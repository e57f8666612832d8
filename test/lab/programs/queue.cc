#include "queue.h"

#include <atomic>
#include <cstring>

#include "core/os/error.h"

namespace lab {
namespace {

constexpr std::uint32_t kPackets = 64;
constexpr std::uint16_t header_of(hsa_packet_type_t type) {
  return static_cast<std::uint16_t>(
      type << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER |
      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

}  // namespace

ComputeQueue::ComputeQueue(const Runtime& runtime) {
  check_hsa(hsa_queue_create(runtime.gpu(), kPackets, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, 0, 0,
                             &queue_),
            "creating an AQL queue");
}

ComputeQueue::~ComputeQueue() { hsa_queue_destroy(queue_); }

void ComputeQueue::submit(const void* packet, std::uint16_t header) {
  constexpr std::size_t kPacketBytes = 64;
  const std::uint64_t index = hsa_queue_add_write_index_screlease(queue_, 1);
  if (index - hsa_queue_load_read_index_scacquire(queue_) >= queue_->size) {
    throw kfdcp::Error(kfdcp::ErrorCode::gpu, "AQL queue: it is full");
  }
  auto* slot = static_cast<std::byte*>(queue_->base_address) + index % queue_->size * kPacketBytes;
  // The header makes the packet valid, so it is written last.
  std::memcpy(slot + sizeof header, static_cast<const std::byte*>(packet) + sizeof header,
              kPacketBytes - sizeof header);
  std::atomic_ref(*reinterpret_cast<std::uint16_t*>(slot)).store(header, std::memory_order_release);
  hsa_signal_store_screlease(queue_->doorbell_signal, static_cast<hsa_signal_value_t>(index));
}

void ComputeQueue::submit_barrier(hsa_signal_t dependency, const Signal& completion) {
  hsa_barrier_and_packet_t packet{};
  packet.dep_signal[0] = dependency;
  packet.completion_signal = completion.handle();
  submit(&packet, header_of(HSA_PACKET_TYPE_BARRIER_AND));
}

void ComputeQueue::submit_dispatch(const void* kernel_object, void* arguments,
                                   const Signal& completion) {
  hsa_kernel_dispatch_packet_t packet{};
  packet.setup = 1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
  packet.workgroup_size_x = packet.workgroup_size_y = packet.workgroup_size_z = 1;
  packet.grid_size_x = packet.grid_size_y = packet.grid_size_z = 1;
  packet.kernel_object = reinterpret_cast<std::uintptr_t>(kernel_object);
  packet.kernarg_address = arguments;
  packet.completion_signal = completion.handle();
  submit(&packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH));
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
