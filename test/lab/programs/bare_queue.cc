#include "bare_queue.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/os/error.h"

namespace lab {
namespace {

constexpr std::uint32_t kGtt = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
constexpr std::size_t kPageBytes = 4096;
// In cache lines of their own.
constexpr std::size_t kReadPointer = 0;
constexpr std::size_t kWritePointer = 64;

constexpr std::size_t kSdmaRingBytes = 64 * 1024;

constexpr std::size_t kAqlPacketBytes = 64;
constexpr std::uint32_t kEopBytes = 4096;

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

/// Sizes of a save area, which the kernel calculates in the same way
/// (kfd_queue.c:kfd_queue_ctx_save_restore_size @ 6.12.117).
struct SaveArea {
  std::uint32_t control_stack;
  std::uint32_t context;  // of one compute die, the control stack included
  std::size_t whole;      // of all dies, with what a debugger gets of each wave
};

SaveArea save_area(const BareGpu& gpu) {
  constexpr std::uint64_t kGfx10 = 100100;
  constexpr std::uint64_t kDebuggerBytes = 32;  // of a wave
  const std::uint64_t dies = gpu.property("num_xcc");
  const std::uint64_t units = gpu.property("simd_count") / gpu.property("simd_per_cu") / dies;
  const std::uint64_t engines =
      gpu.property("array_count") / gpu.property("simd_arrays_per_engine");
  const std::uint64_t waves = gpu.property("gfx_target_version") < kGfx10
                                  ? std::min(units * 40, engines * 512)
                                  : units * 32;
  // Kernels before 6.12 do not tell, and take any size.
  const std::uint64_t stack = std::max<std::uint64_t>(gpu.property("ctl_stack_size"), kPageBytes);
  const std::uint64_t context = std::max(gpu.property("cwsr_size"), stack + kPageBytes);
  const std::uint64_t all = (context + waves * kDebuggerBytes) * dies;
  return {static_cast<std::uint32_t>(stack), static_cast<std::uint32_t>(context),
          (all + kPageBytes - 1) / kPageBytes * kPageBytes};
}

kfd_ioctl_create_queue_args aql_arguments(const BareGpu& gpu, const AqlQueue::Shape& shape,
                                          const BareBuffer& eop, const BareBuffer& save) {
  const SaveArea sizes = save_area(gpu);
  kfd_ioctl_create_queue_args arguments{};
  arguments.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
  arguments.queue_percentage = shape.percent;
  arguments.queue_priority = shape.priority;
  arguments.eop_buffer_address = eop.address();
  arguments.eop_buffer_size = kEopBytes;
  arguments.ctx_save_restore_address = save.address();
  arguments.ctx_save_restore_size = sizes.context;
  arguments.ctl_stack_size = sizes.control_stack;
  return arguments;
}

}  // namespace

BareQueue::BareQueue(const BareGpu& gpu, const kfd_ioctl_create_queue_args& arguments,
                     std::size_t ring_bytes)
    : gpu_(gpu),
      ring_(gpu, kGtt, ring_bytes),
      pointers_(gpu, kGtt, kPageBytes),
      arguments_(arguments) {
  std::memset(ring_.bytes().data(), 0, ring_.bytes().size());
  std::memset(pointers_.bytes().data(), 0, pointers_.bytes().size());
  arguments_.gpu_id = gpu.id();
  arguments_.ring_base_address = ring_.address();
  arguments_.ring_size = static_cast<std::uint32_t>(ring_bytes);
  arguments_.read_pointer_address = pointers_.address(kReadPointer);
  arguments_.write_pointer_address = pointers_.address(kWritePointer);
  gpu.call(AMDKFD_IOC_CREATE_QUEUE, &arguments_, "creating a queue");
}

BareQueue::~BareQueue() {
  kfd_ioctl_destroy_queue_args destroy{};
  destroy.queue_id = id();
  gpu_.attempt(AMDKFD_IOC_DESTROY_QUEUE, &destroy);
}

std::uint64_t& BareQueue::write_pointer() const {
  return *reinterpret_cast<std::uint64_t*>(pointers_.bytes().data() + kWritePointer);
}

std::uint64_t BareQueue::consumed() const {
  return load(*reinterpret_cast<std::uint64_t*>(pointers_.bytes().data() + kReadPointer));
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
  store(gpu_.doorbell(arguments_.doorbell_offset), doorbell);
}

SdmaQueue::SdmaQueue(const BareGpu& gpu, std::uint32_t engine)
    : BareQueue(gpu, sdma_arguments(engine), kSdmaRingBytes) {}

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

AqlBuffers::AqlBuffers(const BareGpu& gpu)
    : objects_(gpu, kGtt, kPageBytes),
      eop_(gpu, kGtt, kEopBytes),
      save_(gpu, kGtt, save_area(gpu).whole) {
  for (const BareBuffer* buffer : {&objects_, &eop_, &save_}) {
    std::memset(buffer->bytes().data(), 0, buffer->bytes().size());
  }
}

AqlQueue::AqlQueue(const BareGpu& gpu, const Shape& shape)
    : AqlBuffers(gpu),
      BareQueue(gpu, aql_arguments(gpu, shape, eop_, save_), shape.packets * kAqlPacketBytes) {
  for (std::size_t at = 0; at < ring_bytes(); at += kAqlPacketBytes) {
    const std::uint16_t empty = kInvalid;
    std::memcpy(ring() + at, &empty, sizeof empty);
  }
  for (std::uint32_t op = KFDSIM_OP_FILL; op <= KFDSIM_OP_SPIN; ++op) {
    const kfdsim_microop object{KFDSIM_MICROOP_MAGIC, KFDSIM_MICROOP_VERSION, op};
    std::memcpy(objects_.bytes().data() + op * sizeof object, &object, sizeof object);
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
  packet[4] = objects_.address() + operation * sizeof(kfdsim_microop);
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
