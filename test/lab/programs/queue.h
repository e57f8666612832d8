// AQL queues, and barrier packets: work that can stay pending across a checkpoint.
#pragma once

#include <hsa/hsa.h>

#include <chrono>
#include <cstdint>

#include "runtime.h"

namespace lab {

/// One user-mode AQL queue.
class ComputeQueue {
 public:
  /// Throws Error{gpu}.
  explicit ComputeQueue(const Runtime& runtime);
  ~ComputeQueue();
  ComputeQueue(const ComputeQueue&) = delete;
  ComputeQueue& operator=(const ComputeQueue&) = delete;

  /// Submits a BARRIER_AND packet: it completes when `dependency` (null handle: none) is 0, and
  /// then decrements `completion`. Throws Error{gpu} when the queue is full.
  void submit_barrier(hsa_signal_t dependency, const Signal& completion);
  /// Submits a KERNEL_DISPATCH packet of one work item, which decrements `completion` at its end.
  /// Throws Error{gpu} when the queue is full.
  void submit_dispatch(const void* kernel_object, void* arguments, const Signal& completion);

 private:
  /// Puts a packet of 64 bytes, its header aside, into the next slot and rings the doorbell.
  void submit(const void* packet, std::uint16_t header);

  hsa_queue_t* queue_ = nullptr;
};

/// A barrier packet the GPU cannot finish before release() is called.
class PendingBarrier {
 public:
  /// Creates its queue and submits the packet. Throws Error{gpu}.
  explicit PendingBarrier(const Runtime& runtime);

  /// Sets the dependency from the CPU, waits until the packet completed, then submits a new one, so
  /// that the process can be checkpointed again. Throws Error{gpu} when it does not complete within
  /// `limit`, or was complete before its time.
  void release(std::chrono::milliseconds limit);

 private:
  void arm();

  ComputeQueue queue_;
  Signal dependency_{1};
  Signal completion_{1};
};

}  // namespace lab
