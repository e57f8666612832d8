// User queues by the kernel's own calls: packets are written, the doorbell is rung, that is all.
#pragma once

#include <linux/kfd_ioctl.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "selftest/buffer.h"
#include "selftest/gpu.h"

namespace kfdcp::selftest {

/// What both kinds have: ring and pointers. The kernel wants each in a mapping of its own, which it
/// fills (kfd_queue.c:kfd_queue_acquire_buffers@6.12.117).
class Queue {
 public:
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

 protected:
  /// Where the pointers are in their page. Of an AQL queue that page is an amd_queue_t.
  struct Pointers {
    std::size_t read, write;
  };
  /// `ring_bytes` is a power of 2. Throws Error{gpu}.
  Queue(Gpu& gpu, const kfd_ioctl_create_queue_args& arguments, std::size_t ring_bytes,
        Pointers pointers);

  std::byte* ring() const { return ring_.bytes().data(); }
  std::size_t ring_bytes() const { return ring_.size(); }
  Buffer& page() { return page_; }
  /// What the GPU has consumed: bytes of SDMA packets, or AQL packets.
  std::uint64_t consumed() const { return load(page_.long_word(at_.read)); }
  /// Makes what is before `position` the GPU's, with `bell` as the doorbell wants it.
  void submit(std::uint64_t position, std::uint64_t bell);
  /// To be called by the classes below, once the ring holds packets that do nothing.
  void create();

 private:
  Gpu& gpu_;
  Buffer ring_, page_;
  Pointers at_;
  kfd_ioctl_create_queue_args arguments_;
  bool made_ = false;
};

/// A queue of SDMA packets.
class SdmaQueue : public Queue {
 public:
  /// Throws Error{gpu}.
  explicit SdmaQueue(Gpu& gpu);

  /// Each writes one packet, or as many as its size takes. Nothing starts before start(). Throws
  /// Error{gpu} when the ring has no room.
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  void add(std::uint64_t address, std::uint64_t value);
  void fence(std::uint64_t address, std::uint32_t value);
  /// Raises event `id`; fence() its slot of the event page first.
  void trap(std::uint32_t id);
  void start();

  /// Bytes that can be written now.
  std::uint64_t room() const;

 private:
  void put(std::initializer_list<std::uint32_t> dwords);

  std::uint32_t fence_header_;
  std::uint64_t written_ = 0;  // bytes
};

/// What a packet's completion counts down: the 64 bytes of ROCr's amd_signal_t.
struct Signal {
  std::int64_t kind;  // 1: of a user
  std::int64_t value;
  std::uint64_t rest[6];
};
static_assert(sizeof(Signal) == 64);

/// What an AQL queue needs besides. It outlives the queue: the kernel does not unmap what one uses.
class AqlBuffers {
 protected:
  explicit AqlBuffers(Gpu& gpu);

  Buffer eop_;
  Buffer save_;  // what waves that are stopped are saved in
};

/// A queue of AQL packets, of which barriers need no shader.
class AqlQueue : private AqlBuffers, public Queue {
 public:
  /// Throws Error{gpu}.
  explicit AqlQueue(Gpu& gpu);

  /// A barrier that waits until the signal at `dependency` is 0 and then counts down the one at
  /// `completion`; GPU addresses, 0 for none. Starts at once. Throws Error{gpu} without room.
  void barrier(std::uint64_t dependency, std::uint64_t completion);

 private:
  std::uint64_t written_ = 0;  // packets
};

}  // namespace kfdcp::selftest
