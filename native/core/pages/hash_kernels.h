// XXH3 over contents, once for each kind of processor: hash.cc chooses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kfdcp {

/// Of all kernels the same results.
struct HashKernels {
  /// XXH3-64, seed 0.
  std::uint64_t (*hash64)(const void* bytes, std::size_t size);
  /// The same, and XXH3-128 in canonical order, in one pass.
  std::uint64_t (*both)(const void* bytes, std::size_t size, std::uint8_t h128[16]);
};

#ifdef __x86_64__
/// Only where the processor has AVX2.
extern const HashKernels kHashAvx2;
#endif
/// For every processor. On x86-64 without vectors: SSE2 alone gains two thirds at most, and take
/// four times as long where the processor is emulated.
extern const HashKernels kHashPortable;

}  // namespace kfdcp
