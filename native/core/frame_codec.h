// One frame: content to stored bytes and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/pages.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace kfdcp {

struct EncodedFrame {
  Codec codec;
  std::uint64_t checksum;  // XXH3-64 of the content; 0 for Codec::zero
  std::span<const std::byte>
      stored;  // the content itself, or bytes of the encoder until its next call
};

/// Chooses the codec of each frame. Reuses one zstd context; never calls zstd without compress.
class FrameEncoder {
 public:
  /// `frame_bytes` is the longest frame. Throws std::bad_alloc.
  FrameEncoder(bool compress, int zstd_level, std::uint32_t frame_bytes);
  ~FrameEncoder();

  /// Throws Error{io} when zstd fails for another reason than lack of gain.
  EncodedFrame encode(std::span<const std::byte> content);

 private:
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;  // null: no compression
  std::vector<std::byte> scratch_;
};

/// Decodes and verifies frames. One thread at a time.
class FrameDecoder {
 public:
  FrameDecoder();
  ~FrameDecoder();

  /// `stored` is frame.stored bytes, `out` frame.raw bytes; for Codec::raw they may be the same
  /// memory. `index` is for messages. Throws Error{corrupt} when the content is not what was saved.
  void decode(const FrameEntry& frame, std::uint64_t index, std::span<const std::byte> stored,
              std::span<std::byte> out);
  /// Room of `bytes` for stored bytes, valid until the next call.
  std::span<std::byte> scratch(std::size_t bytes);

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
  std::vector<std::byte> scratch_;
};

}  // namespace kfdcp
