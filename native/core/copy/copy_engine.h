// Moving bytes between buffers on a GPU and host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/os/fd.h"

namespace kfdcp {

/// A buffer opened for copying; made by CopyEngine::import.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
};

/// Bytes of a buffer and their place in a slot.
struct CopySegment {
  DeviceBuffer* buffer;
  std::uint64_t offset;  // in the buffer, bytes
  std::size_t slot;
  std::size_t slot_offset;  // in the slot, bytes; a multiple of 4096
  std::size_t bytes;
};

/// Bytes of a buffer and their place in another one.
struct CopyMove {
  DeviceBuffer* from;
  std::uint64_t from_offset;  // in the buffer, bytes
  DeviceBuffer* to;
  std::uint64_t to_offset;
  std::uint64_t bytes;
};

/// Memory of the GPU's own; a dma-buf of it, which keeps it when the buffer and its engine are
/// gone.
struct AllocatedBuffer {
  std::unique_ptr<DeviceBuffer> buffer;
  UniqueFd dmabuf;
};

/// Most segments in one slot, and most moves of one copy.
inline constexpr std::size_t kMaxSegments = 32;
/// Most slots of one copy.
inline constexpr std::size_t kMaxCopySlots = 8;
/// Most bytes of one copy between buffers: what a cancel has to wait for, in each slot.
inline constexpr std::size_t kMaxMoveBytes = 16u << 20;

/// A ring of pinned staging slots and asynchronous copies between them and buffers of one GPU.
/// Not thread-safe: one thread drives one engine. Each slot has at most one copy in flight.
/// Errors: Error{gpu} from any call, also for a copy started earlier (reported by wait).
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  /// Number of staging slots and size of each in bytes; slots * slot_bytes <= 256 MiB.
  virtual std::size_t slots() const = 0;
  virtual std::size_t slot_bytes() const = 0;
  virtual std::span<std::byte> slot(std::size_t index) = 0;
  /// Slots that a copy should have where as many are ready; 1 to kMaxCopySlots. A large copy costs
  /// as much to start as a small one.
  virtual std::size_t copy_slots() const = 0;

  /// `size` bytes from `offset` on of a dma-buf, which is borrowed for the call only. `offset` is a
  /// multiple of 4096. Without it the dma-buf must have exactly `size` bytes.
  virtual std::unique_ptr<DeviceBuffer> import(int dmabuf_fd, std::uint64_t size,
                                               std::optional<std::uint64_t> offset) = 0;
  /// VRAM that applications can do without. None: there is not as much, or this engine has none.
  virtual std::optional<AllocatedBuffer> allocate(std::uint64_t bytes);
  /// One copy between buffers and 1 to kMaxCopySlots slots. Each slot has 1 to kMaxSegments
  /// segments, one behind the other in the list, of together at most slot_bytes. They are of
  /// different buffers or of the same one. The segments of a read must not overlap in a slot.
  virtual void start_read(std::span<const CopySegment> from) = 0;
  virtual void start_write(std::span<const CopySegment> to) = 0;
  /// One copy of 1 to kMaxSegments moves into buffers of allocate(), together at most
  /// kMaxMoveBytes. It takes the slot's turn, not its memory.
  virtual void start_move(std::span<const CopyMove> moves, std::size_t slot);
  /// Waits until the copy started last on `slot` is complete, in all its slots.
  virtual void wait(std::size_t slot) = 0;
};

/// 1 to 32 slots of whole 4 KiB pages, 256 MiB together; anything else is Error{unsupported}.
struct EngineOptions {
  std::size_t slots = 8;
  std::size_t slot_bytes = 2u << 20;
  std::optional<unsigned> node{};  // NUMA node that the memory should be on
};

/// SDMA through libdrm_amdgpu on a render node; several submissions in flight. `render_fd` is
/// borrowed for the constructor only (libdrm duplicates it).
std::unique_ptr<CopyEngine> make_sdma_engine(int render_fd, const EngineOptions& options);

/// The CPU, through mmap of the dma-buf. Copies complete in start_*.
std::unique_ptr<CopyEngine> make_cpu_engine(const EngineOptions& options);

}  // namespace kfdcp
