// All codecs that compress. Stored bytes: docs/image-format.md, "Frames".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/pages/pages.h"

struct ZSTD_CCtx_s;

namespace kfdcp {

/// One thread at a time.
class Compressor {
 public:
  /// `longest` bounds the content and the room, bytes. Throws std::bad_alloc, Error{protocol} for
  /// a level zstd refuses.
  Compressor(int zstd_level, std::uint32_t longest);
  ~Compressor();

  /// `content` by `codec` (zstd, lz4 or planes) in at most `room` bytes, in memory of this object
  /// until the next call; empty when there is not enough room. Throws Error{io} when zstd fails
  /// for another reason.
  std::span<const std::byte> compress(Codec codec, std::span<const std::byte> content,
                                      std::size_t room);

 private:
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  /// In `out_` from `at` on, which counts as room.
  std::span<const std::byte> zstd(std::span<const std::byte> content, std::size_t room,
                                  std::size_t at = 0);
  std::span<const std::byte> lz4(std::span<const std::byte> content, std::size_t room);

  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;
  std::vector<std::byte> lz4_state_;
  std::vector<std::byte> planes_;
  std::vector<std::byte> out_;
};

}  // namespace kfdcp
