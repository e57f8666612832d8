// Instead of the checksums of frames, next to nothing: what a transfer takes without them shows
// what they cost. Linked before core, in the benchmark alone.
#include <algorithm>
#include <cstring>

#include "core/pages/hash.h"

namespace kfdcp {

/// Of the first bytes, which differ between the frames of the benchmark.
HashPair xxh3_both(std::span<const std::byte> bytes) {
  HashPair hash{bytes.size(), {}};
  const std::size_t head = std::min(bytes.size(), sizeof(hash.h64));
  std::memcpy(&hash.h64, bytes.data(), head);
  std::memcpy(hash.h128.data(), &hash.h64, sizeof(hash.h64));
  hash.h128.back() = 1;  // 0 is no digest
  return hash;
}

}  // namespace kfdcp
