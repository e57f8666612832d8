#include "bare_queue.h"

#include <atomic>
#include <cstring>

#include "core/error.h"

namespace lab {
namespace {

constexpr std::uint32_t kGtt = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
constexpr std::size_t kPageBytes = 4096;
// Behind the ring, in cache lines of their own.
constexpr std::size_t kReadPointer = 0;
constexpr std::size_t kWritePointer = 64;

constexpr std::size_t kSdmaRingBytes = 64 * 1024;

constexpr std::size_t kAqlPacketBytes = 64;
constexpr std::uint32_t kControlStackBytes = 4096;
constexpr std::uint32_t kEopBytes = 4096;
constexpr std::uint32_t kSaveBytes = 64 * 1024;
// What AQL queues have behind the ring.
constexpr std::size_t kObjectsAt = 0;
constexpr std::size_t kEopAt = kPageBytes;
constexpr std::size_t kSaveAt = kEopAt + kEopBytes;
constexpr std::size_t kExtraBytes = kSaveAt + kSaveBytes;

enum SdmaOperation : std::uint32_t {
  kCopyLinear = 1,
  kFence = 5,
  kTrap = 6,
  kPollMemory = 8 | 3u << 28 | 1u << 31,  // until equal, by polling
  kAtomicAdd64 = 10 | 47u << 25,
};

enum AqlType : std::uint16_t { kInvalid = 1, kDispatch = 2, kBarrierAnd = 3 };

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

kfd_ioctl_create_queue_args sdma_arguments(std::uint32_t engine) {
  kfd_ioctl_create_queue_args arguments{};
  arguments.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
  arguments.queue_percentage = 100;
  arguments.queue_priority = 7;
  if (engine != SdmaQueue::kAnyEngine) {
    arguments.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
    arguments.sdma_engine_id = engine;
  }
  return arguments;
}

kfd_ioctl_create_queue_args aql_arguments(const AqlQueue::Shape& shape) {
  kfd_ioctl_create_queue_args arguments{};
  arguments.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
  arguments.queue_percentage = shape.percent;
  arguments.queue_priority = shape.priority;
  arguments.eop_buffer_address = kEopAt;
  arguments.eop_buffer_size = kEopBytes;
  arguments.ctx_save_restore_address = kSaveAt;
  arguments.ctx_save_restore_size = kSaveBytes;
  arguments.ctl_stack_size = kControlStackBytes;
  return arguments;
}

}  // namespace

BareQueue::BareQueue(const BareGpu& gpu, const kfd_ioctl_create_queue_args& arguments,
                     std::size_t ring_bytes, std::size_t extra_bytes)
    : gpu_(gpu), memory_(gpu, kGtt, ring_bytes + kPageBytes + extra_bytes), arguments_(arguments) {
  std::memset(memory_.bytes().data(), 0, memory_.bytes().size());
  arguments_.gpu_id = gpu.id();
  arguments_.ring_base_address = memory_.address();
  arguments_.ring_size = static_cast<std::uint32_t>(ring_bytes);
  arguments_.read_pointer_address = memory_.address(ring_bytes + kReadPointer);
  arguments_.write_pointer_address = memory_.address(ring_bytes + kWritePointer);
  const auto extra_address = reinterpret_cast<std::uintptr_t>(extra());
  if (arguments_.eop_buffer_address != 0) arguments_.eop_buffer_address += extra_address;
  if (arguments_.ctx_save_restore_address != 0)
    arguments_.ctx_save_restore_address += extra_address;
  gpu.call(AMDKFD_IOC_CREATE_QUEUE, &arguments_, "creating a queue");
}

BareQueue::~BareQueue() {
  kfd_ioctl_destroy_queue_args destroy{};
  destroy.queue_id = id();
  gpu_.attempt(AMDKFD_IOC_DESTROY_QUEUE, &destroy);
}

std::byte* BareQueue::extra() const { return ring() + ring_bytes() + kPageBytes; }

std::uint64_t& BareQueue::write_pointer() const {
  return *reinterpret_cast<std::uint64_t*>(ring() + ring_bytes() + kWritePointer);
}

std::uint64_t BareQueue::consumed() const {
  return load(*reinterpret_cast<std::uint64_t*>(ring() + ring_bytes() + kReadPointer));
}

bool BareQueue::drained() const { return consumed() == load(write_pointer()); }

void BareQueue::expect_known() const {
  kfd_ioctl_update_queue_args update{};
  update.ring_base_address = arguments_.ring_base_address;
  update.ring_size = arguments_.ring_size;
  update.queue_id = id();
  update.queue_percentage = arguments_.queue_percentage;
  update.queue_priority = arguments_.queue_priority;
  gpu_.call(AMDKFD_IOC_UPDATE_QUEUE, &update, ("queue " + std::to_string(id())).c_str());
}

void BareQueue::submit(std::uint64_t position, std::uint64_t doorbell) {
  store(write_pointer(), position);
  const std::size_t at = arguments_.doorbell_offset % BareGpu::kDoorbellBytes;
  store(*reinterpret_cast<std::uint64_t*>(gpu_.doorbells() + at), doorbell);
}

SdmaQueue::SdmaQueue(const BareGpu& gpu, std::uint32_t engine)
    : BareQueue(gpu, sdma_arguments(engine), kSdmaRingBytes, 0) {}

void SdmaQueue::put(std::initializer_list<std::uint32_t> dwords) {
  for (const std::uint32_t dword : dwords) {
    std::memcpy(ring() + written_ % kSdmaRingBytes, &dword, sizeof dword);
    written_ += sizeof dword;
  }
}

void SdmaQueue::copy(std::uint64_t to, std::uint64_t from, std::uint32_t size) {
  put({kCopyLinear, size - 1, 0, low(from), high(from), low(to), high(to)});
}

void SdmaQueue::add(std::uint64_t address, std::uint64_t value) {
  put({kAtomicAdd64, low(address), high(address), low(value), high(value), 0, 0, 0});
}

void SdmaQueue::fence(std::uint64_t address, std::uint32_t value) {
  put({kFence, low(address), high(address), value});
}

void SdmaQueue::poll(std::uint64_t address, std::uint32_t value) {
  put({kPollMemory, low(address), high(address), value, ~0u, 0});
}

void SdmaQueue::trap(std::uint32_t id) { put({kTrap, id}); }

void SdmaQueue::ring_doorbell() { submit(written_, written_); }

AqlQueue::AqlQueue(const BareGpu& gpu, const Shape& shape)
    : BareQueue(gpu, aql_arguments(shape), shape.packets * kAqlPacketBytes, kExtraBytes) {
  for (std::size_t at = 0; at < ring_bytes(); at += kAqlPacketBytes) {
    const std::uint16_t empty = kInvalid;
    std::memcpy(ring() + at, &empty, sizeof empty);
  }
  for (std::uint32_t op = KFDSIM_OP_FILL; op <= KFDSIM_OP_SPIN; ++op) {
    const kfdsim_microop object{KFDSIM_MICROOP_MAGIC, KFDSIM_MICROOP_VERSION, op};
    std::memcpy(extra() + kObjectsAt + op * sizeof object, &object, sizeof object);
  }
}

std::uint64_t AqlQueue::room() const {
  return ring_bytes() / kAqlPacketBytes - (written_ - consumed());
}

void AqlQueue::put(std::uint16_t type, const void* packet) {
  std::byte* slot = ring() + written_++ * kAqlPacketBytes % ring_bytes();
  // The header makes the packet valid, so it is written last.
  std::memcpy(slot + sizeof type, static_cast<const std::byte*>(packet) + sizeof type,
              kAqlPacketBytes - sizeof type);
  std::atomic_ref(*reinterpret_cast<std::uint16_t*>(slot)).store(type, std::memory_order_release);
}

void AqlQueue::dispatch(kfdsim_op operation, std::uint64_t arguments, std::uint64_t completion) {
  std::uint64_t packet[8] = {};
  packet[4] =
      reinterpret_cast<std::uintptr_t>(extra()) + kObjectsAt + operation * sizeof(kfdsim_microop);
  packet[5] = arguments;
  packet[7] = completion;
  put(kDispatch, packet);
}

void AqlQueue::barrier(std::uint64_t dependency, std::uint64_t completion) {
  std::uint64_t packet[8] = {};
  packet[1] = dependency;
  packet[7] = completion;
  put(kBarrierAnd, packet);
}

void AqlQueue::ring_doorbell() { submit(written_, written_ - 1); }

}  // namespace lab
