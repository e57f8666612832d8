// Contents that are stored already: in the file being written, or in its parent.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "core/hash.h"

namespace kfdcp {

class PagesReader;

/// Two contents are the same when their XXH3-128, XXH3-64 and lengths are. No byte is compared:
/// what was stored would have to be read from the disk again. By accident that goes wrong once in
/// 2^80 images of the largest size; on purpose a process can spoil nothing but its own contents.
/// Any thread.
class KnownFrames {
 public:
  struct Identity {
    Digest128 digest;
    std::uint64_t checksum;
    std::uint32_t raw;  // bytes of content
    bool operator==(const Identity&) const = default;
  };
  /// Where a content is: by the number of a frame of this file, or of the parent.
  struct Place {
    bool in_parent;
    std::uint32_t frame;
  };

  /// All frames of `parent`, which must have digests, else Error{unsupported}.
  void add_parent(const PagesReader& parent);
  /// A frame of this file; one that is known stays where it is.
  void add(const Identity& identity, std::uint32_t frame);
  std::optional<Place> find(const Identity& identity) const;

 private:
  struct Hash {
    std::size_t operator()(const Identity& identity) const {
      return static_cast<std::size_t>(identity.checksum);
    }
  };
  mutable std::mutex mutex_;
  std::unordered_map<Identity, Place, Hash> places_;
};

}  // namespace kfdcp
