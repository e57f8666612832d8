// The identity of contents: digests and length.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/hash.h"
#include "core/pages/pages.h"

namespace kfdcp {

/// Two contents are the same when their XXH3-128, XXH3-64 and lengths are. No byte is compared,
/// because stored contents would have to be read from the disk again. An accidental collision
/// happens once in 2^80 images of the largest size. With a deliberate one a process can damage only
/// contents of its own container.
struct FrameIdentity {
  Digest128 digest;
  std::uint64_t checksum;
  std::uint32_t raw;  // bytes of content
  bool operator==(const FrameIdentity&) const = default;

  struct Hash {
    std::size_t operator()(const FrameIdentity& identity) const {
      return static_cast<std::size_t>(identity.checksum);
    }
  };
};

inline FrameIdentity identity_of(const FrameEntry& entry) {
  return {entry.digest, entry.checksum, entry.raw};
}

}  // namespace kfdcp
