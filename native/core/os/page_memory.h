// Memory of whole pages, as direct I/O and the GPU require.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/fd.h"

namespace kfdcp {

/// Bytes: memory, lengths and offsets that are multiples of it can be read and written past the
/// page cache on any block device.
inline constexpr std::size_t kPageBytes = 4096;

inline bool page_aligned(std::uint64_t value) { return value % kPageBytes == 0; }
inline bool page_aligned(const void* memory) {
  return page_aligned(reinterpret_cast<std::uintptr_t>(memory));
}

/// `alignment` is a power of two; the caller has bounded `value` well below 2^64.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

/// Zeroed, private and backed only where it was touched. Throws Error{io}.
Mapping page_memory(std::size_t bytes);

}  // namespace kfdcp
