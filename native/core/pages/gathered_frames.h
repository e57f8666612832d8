// Several frames of a pages file, written by one call.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/os/fd.h"
#include "core/pages/pages.h"

namespace kfdcp {

/// Frames that lie one after the other in the file, as one gathering write. Records and what fills
/// up to the content are in pages of their own, so that whole frames of whole pages can be written
/// past the page cache.
class GatheredFrames {
 public:
  bool empty() const { return frames_ == 0; }
  std::size_t frames() const { return frames_; }
  std::uint64_t begin() const { return begin_; }
  std::uint64_t bytes() const { return end_ - begin_; }  // in the file
  std::span<iovec> parts() { return parts_; }

  /// Whether the frame lies behind those that are here, and there is room for it.
  bool takes(const PlacedFrame& placed) const {
    return empty() || (placed.begin == end_ && frames_ < kMostFrames);
  }

  /// One that it takes; `stored` is written from where it lies.
  void add(const PlacedFrame& placed, std::span<const std::byte> stored);

  void clear() {
    parts_.clear();
    frames_ = 0;
  }

 private:
  static constexpr std::size_t kMostFrames = 32;

  Mapping pages_;
  std::vector<iovec> parts_;
  std::size_t frames_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace kfdcp
