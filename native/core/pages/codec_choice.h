// The choice of a frame's codec, by a sample of it and by the speed of writing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/pages/compressor.h"
#include "core/pages/pages.h"

namespace kfdcp {

/// What one thread waits for a byte to be written, on the average of the last megabytes. Any
/// thread.
class WriteCost {
 public:
  void add(std::uint64_t bytes, std::uint64_t nanoseconds);
  /// 0 as long as nothing was written.
  double ns_per_byte() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t bytes_ = 0;
  double ns_per_byte_ = 0;
};

/// A frame that shrinks by less than 1/16 is kept raw: raw frames are read with less work, and
/// straight into place.
constexpr std::size_t most_worth_keeping(std::size_t raw) { return raw - raw / 16; }

/// Chooses for frames of one thread.
///
/// With Compress::automatic it is the codec that makes the sample smallest among those that cost no
/// time: compressing and writing the rest must not take this thread longer than writing the frame
/// raw. So a fast disk, or the page cache, gets raw frames and a slow one compressed ones, and
/// checkpoints take no longer than raw ones would but for the samples (1/64 of a frame of 2 MiB).
class CodecChooser {
 public:
  /// Both live longer than this.
  CodecChooser(Compress compress, const WriteCost& write, Compressor& compressor);

  /// Codec::raw, or what to try.
  Codec choose(std::span<const std::byte> content);
  /// What compressing a whole frame took.
  void took(Codec codec, std::size_t bytes, double nanoseconds);

 private:
  struct Trial {
    Codec codec;
    double ratio;        // stored bytes to content bytes; above 1: does not shrink enough
    double ns_per_byte;  // of content
  };
  std::span<const std::byte> sample(std::span<const std::byte> content);
  Trial try_on(Codec codec, std::span<const std::byte> sample);
  Codec smallest(std::span<const std::byte> sample);
  Codec affordable(std::span<const std::byte> sample);

  const Compress compress_;
  const WriteCost& write_;
  Compressor& compressor_;
  std::vector<std::byte> sample_;
  std::array<double, 8> expected_{};  // by codec: ns per byte of content; 0: not tried yet
};

}  // namespace kfdcp
