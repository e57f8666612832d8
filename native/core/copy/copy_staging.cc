#include "core/copy/copy_staging.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/os/error.h"
#include "core/os/numa.h"
#include "core/os/page_memory.h"

namespace kfdcp {
namespace {

EngineOptions checked(const EngineOptions& options) {
  const std::size_t slots = options.slots;
  const std::size_t bytes = options.slot_bytes;
  if (slots == 0 || slots > kMaxSlots) {
    throw Error(ErrorCode::unsupported, "staging: " + std::to_string(slots) +
                                            " slots asked for, 1 to " + std::to_string(kMaxSlots) +
                                            " possible");
  }
  if (bytes == 0 || bytes % kPageBytes != 0 || bytes > kMaxStagingBytes / slots) {
    throw Error(ErrorCode::unsupported, "staging: a slot of " + std::to_string(bytes) +
                                            " bytes is not made of whole pages or exceeds " +
                                            std::to_string(kMaxStagingBytes) +
                                            " bytes with the others");
  }
  return options;
}

Mapping pinnable(const EngineOptions& options) {
  const std::size_t size = options.slots * options.slot_bytes;
  Mapping memory = page_memory(size);
  if (options.node) prefer_node(memory.bytes(), *options.node);
  // A fork would make the pages copy-on-write: the GPU would keep the old ones.
  if (::madvise(memory.data(), size, MADV_DONTFORK) != 0) throw io_error("staging: MADV_DONTFORK");
  // Huge pages mean fewer page table entries, for the GPU too. A kernel without them refuses, which
  // is harmless.
  (void)::madvise(memory.data(), size, MADV_HUGEPAGE);
  return memory;
}

}  // namespace

Staging::Staging(const EngineOptions& options)
    : options_(checked(options)), memory_(pinnable(options)) {}

std::span<std::byte> Staging::slot(std::size_t index) const {
  if (index >= options_.slots) {
    throw Error(ErrorCode::gpu, "staging: there is no slot " + std::to_string(index));
  }
  return all().subspan(index * options_.slot_bytes, options_.slot_bytes);
}

std::size_t Staging::copy_slots() const {
  constexpr std::size_t kCopyBytes = 16u << 20;
  const std::size_t most = std::min(kMaxCopySlots, kCopyBytes / options_.slot_bytes);
  return std::clamp<std::size_t>(options_.slots / 3, 1, std::max<std::size_t>(most, 1));
}

std::vector<std::size_t> slots_of(std::span<const CopySegment> segments) {
  std::vector<std::size_t> slots;
  std::size_t count = 0;  // of the last slot
  for (const CopySegment& segment : segments) {
    if (slots.empty() || slots.back() != segment.slot) {
      if (std::find(slots.begin(), slots.end(), segment.slot) != slots.end()) {
        throw Error(ErrorCode::gpu, "copy: slot " + std::to_string(segment.slot) + " comes twice");
      }
      slots.push_back(segment.slot);
      count = 0;
    }
    check_count(++count);
  }
  if (slots.empty() || slots.size() > kMaxCopySlots) {
    throw Error(ErrorCode::gpu, "copy of " + std::to_string(slots.size()) + " slots: 1 to " +
                                    std::to_string(kMaxCopySlots) + " possible");
  }
  return slots;
}

void check_count(std::size_t moves) {
  if (moves == 0 || moves > kMaxSegments) {
    throw Error(ErrorCode::gpu, "copy of " + std::to_string(moves) + " segments: 1 to " +
                                    std::to_string(kMaxSegments) + " possible");
  }
}

void check_move(const CopyMove& move, std::uint64_t from_size, std::uint64_t to_size) {
  const auto outside = [&](std::uint64_t offset, std::uint64_t size) {
    return offset > size || move.bytes > size - offset;
  };
  if (move.bytes == 0 || outside(move.from_offset, from_size) || outside(move.to_offset, to_size)) {
    throw Error(ErrorCode::gpu, "copy of " + std::to_string(move.bytes) + " bytes at " +
                                    std::to_string(move.from_offset) + " of a buffer of " +
                                    std::to_string(from_size) + " bytes to " +
                                    std::to_string(move.to_offset) + " of one of " +
                                    std::to_string(to_size) + ": outside one of them");
  }
}

void check_segment(const Staging& staging, const CopySegment& segment, std::uint64_t buffer_size) {
  const auto& [buffer, offset, slot, slot_offset, bytes] = segment;
  (void)staging.slot(slot);
  if (bytes == 0 || slot_offset % kPageBytes != 0 || slot_offset > staging.slot_bytes() ||
      bytes > staging.slot_bytes() - slot_offset || offset > buffer_size ||
      bytes > buffer_size - offset) {
    throw Error(ErrorCode::gpu,
                "copy of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                    " of a buffer of " + std::to_string(buffer_size) + " bytes and at " +
                    std::to_string(slot_offset) + " of a slot of " +
                    std::to_string(staging.slot_bytes()) + " bytes: outside one of them");
  }
}

}  // namespace kfdcp
