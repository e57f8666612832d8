#include <algorithm>
#include <cstring>

#include "core/os/error.h"
#include "selftest/queue.h"

namespace kfdcp::selftest {
namespace {

// Copy, fence and trap as the kernel writes them (sdma_v4_0.c:sdma_v4_0_emit_copy_buffer@6.12.117,
// and its ring_emit_fence). The atomic as ROCr does (sdma_registers.h: SDMA_ATOMIC_ADD64). NOP is
// 0.
constexpr std::uint32_t kCopyLinear = 1;
constexpr std::uint32_t kFence = 5;
constexpr std::uint32_t kTrap = 6;
constexpr std::uint32_t kAtomicAdd64 = 10 | 47u << 25;
/// From gfx10 on a fence names the kind of memory: 3 is uncached
/// (sdma_v5_0.c:sdma_v5_0_ring_emit_fence@6.12.117).
constexpr std::uint32_t kFenceUncached = 3u << 16;
constexpr std::uint64_t kGfx10 = 100000;

constexpr std::size_t kRingBytes = 64 * 1024;
/// The least of these chips (sdma_v4_0.c:sdma_v4_0_buffer_funcs@6.12.117: copy_max_bytes).
constexpr std::uint64_t kMostOfOneCopy = 1 << 22;
constexpr std::size_t kMostDwords = 8;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

kfd_ioctl_create_queue_args sdma_arguments() {
  kfd_ioctl_create_queue_args arguments{};
  arguments.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
  return arguments;
}

}  // namespace

SdmaQueue::SdmaQueue(Gpu& gpu)
    : Queue(gpu, sdma_arguments(), kRingBytes, {.read = 0, .write = 64}),
      fence_header_(kFence | (gpu.property("gfx_target_version") >= kGfx10 ? kFenceUncached : 0)) {
  create();
}

std::uint64_t SdmaQueue::room() const {
  // A packet does not go around the end of the ring, so as much as one may be lost there.
  constexpr std::uint64_t kLost = 2 * kMostDwords * sizeof(std::uint32_t);
  const std::uint64_t used = written_ - consumed() + kLost;
  return used >= kRingBytes ? 0 : kRingBytes - used;
}

void SdmaQueue::put(std::initializer_list<std::uint32_t> dwords) {
  const std::size_t bytes = dwords.size() * sizeof(std::uint32_t);
  if (room() < bytes) throw Error(ErrorCode::gpu, "SDMA queue: its ring is full");
  if (written_ % kRingBytes + bytes > kRingBytes) {
    const std::size_t rest = kRingBytes - written_ % kRingBytes;
    std::memset(ring() + written_ % kRingBytes, 0, rest);
    written_ += rest;
  }
  std::memcpy(ring() + written_ % kRingBytes, dwords.begin(), bytes);
  written_ += bytes;
}

void SdmaQueue::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t part = std::min(bytes, kMostOfOneCopy);
    put({kCopyLinear, low(part - 1), 0, low(from), high(from), low(to), high(to)});
    from += part;
    to += part;
    bytes -= part;
  }
}

void SdmaQueue::add(std::uint64_t address, std::uint64_t value) {
  put({kAtomicAdd64, low(address), high(address), low(value), high(value), 0, 0, 0});
}

void SdmaQueue::fence(std::uint64_t address, std::uint32_t value) {
  put({fence_header_, low(address), high(address), value});
}

void SdmaQueue::trap(std::uint32_t id) { put({kTrap, id}); }

void SdmaQueue::start() { submit(written_, written_); }

}  // namespace kfdcp::selftest
