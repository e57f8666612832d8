// The kernels, compiled with the flags of the including file. No header with inline functions may
// be included here: the linker could use one file's versions everywhere, also on a processor
// without these instructions.
#pragma once

#define XXH_INLINE_ALL  // so that the CRIU plugin needs no library of the host for it
#include <xxhash.h>

#include "core/pages/hash_kernels.h"

namespace kfdcp {
namespace {

std::uint64_t hash64(const void* bytes, std::size_t size) { return XXH3_64bits(bytes, size); }

std::uint64_t hash_both(const void* bytes, std::size_t size, std::uint8_t h128[16]) {
  // The two differ only in the result that they take from the final state.
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, bytes, size);
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
  for (int i = 0; i < 16; ++i) h128[i] = canonical.digest[i];
  return XXH3_64bits_digest(&state);
}

}  // namespace
}  // namespace kfdcp
