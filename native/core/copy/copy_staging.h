// The staging memory of a copy engine: one region, cut into equal slots.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/os/fd.h"

namespace kfdcp {

/// Most bytes of staging one engine may have.
inline constexpr std::size_t kMaxStagingBytes = 256u << 20;

/// Most slots one engine may have. amdgpu remembers the last 32 fences of a context (module
/// parameter sched_jobs) and calls any older one signalled: with more copies in flight than that,
/// the error of the oldest would be lost.
inline constexpr std::size_t kMaxSlots = 32;

/// Page-aligned anonymous memory, divided as `options` says.
class Staging {
 public:
  /// Slots are whole 4 KiB pages. Throws Error{unsupported} when `options` break that or a limit
  /// above, Error{io} when there is no memory.
  explicit Staging(const EngineOptions& options);

  std::size_t slots() const { return options_.slots; }
  std::size_t slot_bytes() const { return options_.slot_bytes; }
  std::span<std::byte> all() const { return memory_.bytes(); }
  /// Throws Error{gpu} when there is no such slot.
  std::span<std::byte> slot(std::size_t index) const;
  /// Slots of a copy: two copies in flight leave a third of the slots to those that fill or empty
  /// them. At most 16 MiB, which any link moves long before the kernel takes the ring for stuck.
  std::size_t copy_slots() const;

 private:
  EngineOptions options_;
  Mapping memory_;
};

/// The slots of a copy of `segments`. Throws Error{gpu} unless they are 1 to kMaxCopySlots
/// different ones, with 1 to kMaxSegments segments each.
std::vector<std::size_t> slots_of(std::span<const CopySegment> segments);
/// Throws Error{gpu} unless there are 1 to kMaxSegments moves.
void check_count(std::size_t moves);
/// Throws Error{gpu} unless the segment, of at least one byte, lies inside a slot, at a whole page,
/// and inside the `buffer_size` bytes of its buffer.
void check_segment(const Staging& staging, const CopySegment& segment, std::uint64_t buffer_size);
/// Throws Error{gpu} unless the move, of at least one byte, lies inside both buffers.
void check_move(const CopyMove& move, std::uint64_t from_size, std::uint64_t to_size);

}  // namespace kfdcp
