// User queues by the kernel's own calls: packets are written, the doorbell is rung, that is all.
#pragma once

#include <linux/kfd_ioctl.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "bare_gpu.h"
#include "microop.h"

namespace lab {

/// What both kinds have: ring, pointers and number. The kernel wants each in a mapping of its own,
/// which it fills (kfd_queue.c:kfd_queue_acquire_buffers @ 6.12.117).
class BareQueue {
 public:
  ~BareQueue();
  BareQueue(const BareQueue&) = delete;
  BareQueue& operator=(const BareQueue&) = delete;

  std::uint32_t id() const { return arguments_.queue_id; }
  /// Whether the GPU has consumed all there is.
  bool drained() const;
  /// What the GPU says it has consumed: bytes of SDMA packets, or AQL packets.
  std::uint64_t consumed() const;
  /// Throws Error{gpu} when the kernel does not know a queue of this number any more.
  void expect_known() const;

 protected:
  /// `ring_bytes` is a power of 2. Throws Error{gpu}.
  BareQueue(const BareGpu& gpu, const kfd_ioctl_create_queue_args& arguments,
            std::size_t ring_bytes);

  std::size_t ring_bytes() const { return arguments_.ring_size; }
  std::byte* ring() const { return ring_.bytes().data(); }
  std::uint64_t& write_pointer() const;
  /// Makes everything before `position` the GPU's, with `doorbell` as the doorbell wants it.
  void submit(std::uint64_t position, std::uint64_t doorbell);

 private:
  const BareGpu& gpu_;
  BareBuffer ring_;
  BareBuffer pointers_;
  kfd_ioctl_create_queue_args arguments_;
};

/// A queue of SDMA packets.
class SdmaQueue : public BareQueue {
 public:
  static constexpr std::uint32_t kAnyEngine = UINT32_MAX;

  /// On one engine, or any. Throws Error{gpu}.
  explicit SdmaQueue(const BareGpu& gpu, std::uint32_t engine = kAnyEngine);

  /// Each writes one packet. Nothing starts before ring_doorbell(). The ring must have room.
  void copy(std::uint64_t to, std::uint64_t from, std::uint32_t size);
  void add(std::uint64_t address, std::uint64_t value);
  void fence(std::uint64_t address, std::uint32_t value);
  /// Waits until the word at `address` is `value`.
  void poll(std::uint64_t address, std::uint32_t value);
  /// Raises event `id`; fence() its slot of the event page first.
  void trap(std::uint32_t id);
  void ring_doorbell();

 private:
  void put(std::initializer_list<std::uint32_t> dwords);

  std::uint64_t written_ = 0;  // bytes
};

/// What a packet's completion counts down: the 64 bytes of ROCr's amd_signal_t.
struct BareSignal {
  std::uint64_t kind;
  std::int64_t value;
  std::uint64_t rest[6];
};
static_assert(sizeof(BareSignal) == 64);

/// What an AQL queue needs besides; it outlives the queue, for the kernel does not unmap what a
/// queue uses.
class AqlBuffers {
 protected:
  explicit AqlBuffers(const BareGpu& gpu);

  BareBuffer objects_;  // micro-operations
  BareBuffer eop_;
  BareBuffer save_;  // what waves that are stopped are saved in
};

/// A queue of AQL packets. Dispatches are micro-operations: only the simulated GPU runs them.
class AqlQueue : private AqlBuffers, public BareQueue {
 public:
  struct Shape {
    std::uint32_t packets;  // of the ring, a power of 2
    std::uint32_t priority = 7;
    std::uint32_t percent = 100;
  };

  /// Throws Error{gpu}.
  AqlQueue(const BareGpu& gpu, const Shape& shape);

  /// Each writes one packet; addresses are the GPU's, 0 for none. Nothing starts before
  /// ring_doorbell(). The ring must have room.
  void dispatch(kfdsim_op operation, std::uint64_t arguments, std::uint64_t completion);
  void barrier(std::uint64_t dependency, std::uint64_t completion);
  void ring_doorbell();

  /// Packets written.
  std::uint64_t written() const { return written_; }
  std::uint64_t room() const;

 private:
  void put(std::uint16_t type, const void* packet);

  std::uint64_t written_ = 0;
};

}  // namespace lab
