#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/os/error.h"
#include "selftest/queue.h"

namespace kfdcp::selftest {
namespace {

constexpr std::size_t kPackets = 64;
constexpr std::size_t kPacketBytes = 64;
constexpr std::size_t kEopBytes = 4096;
constexpr std::uint64_t kPage = 4096;

// hsa_packet_header_t: a barrier, with the memory of the system acquired and released.
constexpr std::uint16_t kInvalid = 1;
constexpr std::uint16_t kBarrierAnd = 3 | 1 << 8 | 2 << 9 | 2 << 11;

// amd_queue_t of ROCr (amd_hsa_queue.h): firmware finds it from the place of the read pointer.
constexpr std::size_t kWritePointer = 56;
constexpr std::size_t kReadPointer = 128;
constexpr std::size_t kReadPointerPlace = 136;
constexpr std::size_t kProperties = 180;
constexpr std::uint32_t kPointersOf64Bits = 2;

/// Sizes of a save area, which the kernel calculates in the same way
/// (kfd_queue.c:kfd_queue_ctx_save_restore_size@6.12.117).
struct SaveArea {
  std::uint32_t control_stack;
  std::uint32_t context;  // of one compute die, the control stack included
  std::size_t whole;      // of all dies, with what a debugger gets of each wave
};

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

SaveArea save_area(const Gpu& gpu) {
  constexpr std::uint64_t kGfx10 = 100100;
  constexpr std::uint64_t kDebuggerBytes = 32;  // of a wave
  const auto at_least_1 = [&](const char* name) {
    return std::max<std::uint64_t>(gpu.property(name), 1);
  };
  const std::uint64_t dies = at_least_1("num_xcc");
  const std::uint64_t units = gpu.property("simd_count") / at_least_1("simd_per_cu") / dies;
  const std::uint64_t engines = gpu.property("array_count") / at_least_1("simd_arrays_per_engine");
  const std::uint64_t waves = gpu.property("gfx_target_version") < kGfx10
                                  ? std::min(units * 40, engines * 512)
                                  : units * 32;
  // Only a kernel that tells the sizes compares them
  // (kfd_queue.c:kfd_queue_acquire_buffers@6.12.117).
  const std::uint64_t stack = std::max(gpu.property("ctl_stack_size"), kPage);
  const std::uint64_t context = std::max(gpu.property("cwsr_size"), stack + kPage);
  return {static_cast<std::uint32_t>(stack), static_cast<std::uint32_t>(context),
          whole_pages((context + waves * kDebuggerBytes) * dies)};
}

kfd_ioctl_create_queue_args aql_arguments(const Gpu& gpu, const Buffer& eop, const Buffer& save) {
  const SaveArea sizes = save_area(gpu);
  kfd_ioctl_create_queue_args arguments{};
  arguments.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
  arguments.eop_buffer_address = eop.address();
  arguments.eop_buffer_size = kEopBytes;
  arguments.ctx_save_restore_address = save.address();
  arguments.ctx_save_restore_size = sizes.context;
  arguments.ctl_stack_size = sizes.control_stack;
  return arguments;
}

}  // namespace

AqlBuffers::AqlBuffers(Gpu& gpu)
    : eop_(Buffer::gtt(gpu, kEopBytes)), save_(Buffer::gtt(gpu, save_area(gpu).whole)) {
  for (const Buffer* buffer : {&eop_, &save_}) {
    std::memset(buffer->bytes().data(), 0, buffer->size());
  }
}

AqlQueue::AqlQueue(Gpu& gpu)
    : AqlBuffers(gpu),
      Queue(gpu, aql_arguments(gpu, eop_, save_), kPackets * kPacketBytes,
            {.read = kReadPointer, .write = kWritePointer}) {
  for (std::size_t at = 0; at < ring_bytes(); at += kPacketBytes) {
    std::memcpy(ring() + at, &kInvalid, sizeof kInvalid);
  }
  page().word(kReadPointerPlace) = kReadPointer;
  page().word(kProperties) = kPointersOf64Bits;
  create();
}

void AqlQueue::barrier(std::uint64_t dependency, std::uint64_t completion) {
  if (written_ - consumed() >= kPackets) {
    throw Error(ErrorCode::gpu, "AQL queue: its ring is full");
  }
  std::uint64_t packet[8] = {};
  packet[1] = dependency;
  packet[7] = completion;
  std::byte* slot = ring() + written_++ % kPackets * kPacketBytes;
  // The header makes the packet valid, so it is written last.
  std::memcpy(slot + sizeof kBarrierAnd, reinterpret_cast<std::byte*>(packet) + sizeof kBarrierAnd,
              kPacketBytes - sizeof kBarrierAnd);
  std::atomic_ref(*reinterpret_cast<std::uint16_t*>(slot))
      .store(kBarrierAnd, std::memory_order_release);
  submit(written_, written_ - 1);
}

}  // namespace kfdcp::selftest
