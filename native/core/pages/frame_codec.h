// One frame: content to stored bytes and back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/pages/codec_choice.h"
#include "core/pages/compressor.h"
#include "core/pages/hash.h"
#include "core/pages/known_frames.h"
#include "core/pages/pages.h"

struct ZSTD_DCtx_s;

namespace kfdcp {

struct EncodedFrame {
  Codec codec;
  std::uint64_t checksum;  // XXH3-64 of the content; 0 for Codec::zero
  // The content itself, or bytes of the encoder until its next call.
  std::span<const std::byte> stored;
  Digest128 digest{};  // XXH3-128 of the content with options.share; 0 for Codec::zero
};

/// What checksums of contents took.
struct HashCost {
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds time{0};
  HashCost& operator+=(const HashCost& other) {
    bytes += other.bytes;
    time += other.time;
    return *this;
  }
};

/// Encodes frames: each with the codec chosen for it. One thread at a time; never compresses with
/// Compress::none.
class FrameEncoder {
 public:
  /// `write` and `known` live longer than this. A frame among `known` is not compressed, for it
  /// will not be stored. Throws std::bad_alloc, Error{protocol} for a bad level.
  FrameEncoder(const PagesOptions& options, const WriteCost& write, const KnownFrames& known);
  ~FrameEncoder();

  /// At most options.frame_bytes. Throws Error{io} when zstd fails for another reason than lack of
  /// gain.
  EncodedFrame encode(std::span<const std::byte> content);
  /// So far.
  const HashCost& hash_cost() const { return hash_cost_; }

 private:
  const bool share_;
  const KnownFrames& known_;
  std::optional<Compressor> compressor_;  // none: no compression
  std::optional<CodecChooser> chooser_;
  HashCost hash_cost_;
};

/// Throws Error{corrupt} unless `content` is what the checksums of `frame` were made of. `index` is
/// for messages.
void check_content(const FrameEntry& frame, std::uint64_t index,
                   std::span<const std::byte> content);

/// Decodes and verifies frames. One thread at a time.
class FrameDecoder {
 public:
  FrameDecoder();
  ~FrameDecoder();

  /// `stored` is frame.stored bytes, `out` frame.raw bytes; for Codec::raw they may be the same
  /// memory. `index` is for messages. Throws Error{corrupt} when the content differs from the saved
  /// one.
  void decode(const FrameEntry& frame, std::uint64_t index, std::span<const std::byte> stored,
              std::span<std::byte> out);
  /// Room of `bytes` for stored bytes, valid until the next call.
  std::span<std::byte> scratch(std::size_t bytes);
  /// So far.
  const HashCost& hash_cost() const { return hash_cost_; }

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  void zstd(std::uint64_t index, std::span<const std::byte> stored, std::span<std::byte> out);
  void planes(std::uint64_t index, std::span<const std::byte> stored, std::span<std::byte> out);

  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> planes_;
  HashCost hash_cost_;
};

}  // namespace kfdcp
