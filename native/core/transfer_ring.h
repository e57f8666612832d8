// The slots of a copy engine as a queue: copies start at its tail and end at its head.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "core/copy_engine.h"

namespace kfdcp {

/// A buffer while copies use it.
struct LiveBuffer {
  std::uint32_t id;  // buffer id of the manifest, for messages
  std::unique_ptr<DeviceBuffer> device;
};

/// Keeps copies in flight and what they need alive. Destroying it waits for all of them, so that
/// no copy outlives its slot or its buffer, however a job ends. Errors of the engine come out
/// with the buffer's id in front.
class TransferRing {
 public:
  /// The engine must be idle, and is used through this alone until this is destroyed.
  explicit TransferRing(CopyEngine& engine) : engine_(engine) {}
  ~TransferRing();
  TransferRing(const TransferRing&) = delete;
  TransferRing& operator=(const TransferRing&) = delete;

  /// Imports a buffer; `dmabuf_fd` is borrowed. It is released when neither the caller nor a copy
  /// holds it any more.
  std::shared_ptr<LiveBuffer> open(std::uint32_t id, int dmabuf_fd, std::uint64_t size);

  bool empty() const { return copies_.empty(); }
  bool full() const { return copies_.size() == engine_.slots(); }

  /// The slot the next copy will use; free only while not full().
  std::size_t tail() const { return tail_; }

  /// Start a copy of `bytes` bytes between the tail slot and `buffer` at `offset`.
  void read(std::shared_ptr<LiveBuffer> buffer, std::uint64_t offset, std::size_t bytes);
  void write(std::shared_ptr<LiveBuffer> buffer, std::uint64_t offset, std::size_t bytes);

  /// Waits for the oldest copy and returns its bytes, valid until pop().
  std::span<std::byte> wait();
  /// Frees the slot of the copy waited for, and its buffer if that was the last use of it.
  void pop() { copies_.pop_front(); }

  /// Time spent waiting so far.
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  struct Copy {
    std::shared_ptr<LiveBuffer> buffer;
    std::size_t slot;
    std::size_t bytes;
    bool in_flight;
  };
  using Start = void (CopyEngine::*)(DeviceBuffer&, std::uint64_t, std::size_t, std::size_t);

  void start(Start how, std::shared_ptr<LiveBuffer> buffer, std::uint64_t offset,
             std::size_t bytes);

  CopyEngine& engine_;
  std::deque<Copy> copies_;
  std::size_t tail_ = 0;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace kfdcp
