// The kernels as the flags of the file that includes this make them. No header with inline
// functions may come in here: the linker could take those of one file for all, also where the
// processor lacks what they use.
#pragma once

#define XXH_INLINE_ALL  // so that the CRIU plugin needs no library of the host for it
#include <xxhash.h>

#include "core/pages/hash_kernels.h"

namespace kfdcp {
namespace {

std::uint64_t hash64(const void* bytes, std::size_t size) { return XXH3_64bits(bytes, size); }

std::uint64_t hash_both(const void* bytes, std::size_t size, std::uint8_t h128[16]) {
  // The two differ in nothing but what they make of the state at the end.
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
