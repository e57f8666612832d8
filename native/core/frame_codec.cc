#include "core/frame_codec.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <cstring>
#include <new>
#include <string>

#include "core/error.h"
#include "core/frame_io.h"
#include "core/hash.h"

namespace kfdcp {

namespace {

/// A frame that shrinks by less than 1/16 is kept raw: raw frames are read with less work, and
/// straight into place.
std::size_t most_worth_keeping(std::size_t raw) { return raw - raw / 16; }

[[noreturn]] void corrupt(std::uint64_t index, const char* reason) {
  throw Error(ErrorCode::corrupt, "pages file: frame " + std::to_string(index) + ": " + reason);
}

}  // namespace

void FrameEncoder::FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

FrameEncoder::FrameEncoder(bool compress, int zstd_level, std::uint32_t frame_bytes) {
  if (!compress) return;
  context_.reset(ZSTD_createCCtx());
  if (!context_) throw std::bad_alloc();
  const std::size_t rc =
      ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, zstd_level);
  if (ZSTD_isError(rc)) {
    throw Error(ErrorCode::protocol, std::string("zstd level: ") + ZSTD_getErrorName(rc));
  }
  scratch_.resize(most_worth_keeping(frame_bytes));
}

FrameEncoder::~FrameEncoder() = default;

EncodedFrame FrameEncoder::encode(std::span<const std::byte> content) {
  if (all_zero(content)) return {Codec::zero, 0, {}};
  const std::uint64_t checksum = xxh3_64(content);
  if (context_) {
    // The room is the limit, so zstd gives up as soon as the gain is out of reach.
    const std::size_t room = most_worth_keeping(content.size());
    const std::size_t n =
        ZSTD_compress2(context_.get(), scratch_.data(), room, content.data(), content.size());
    if (!ZSTD_isError(n) && n < content.size()) {
      return {Codec::zstd, checksum, {scratch_.data(), n}};
    }
    if (ZSTD_isError(n) && ZSTD_getErrorCode(n) != ZSTD_error_dstSize_tooSmall) {
      throw Error(ErrorCode::io, std::string("zstd: ") + ZSTD_getErrorName(n));
    }
  }
  return {Codec::raw, checksum, content};
}

void FrameDecoder::FreeContext::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

FrameDecoder::FrameDecoder() = default;
FrameDecoder::~FrameDecoder() = default;

void FrameDecoder::decode(const FrameEntry& frame, std::uint64_t index,
                          std::span<const std::byte> stored, std::span<std::byte> out) {
  switch (frame.codec) {
    case Codec::zero:
      std::memset(out.data(), 0, out.size());
      return;
    case Codec::raw:
      if (out.data() != stored.data()) std::memcpy(out.data(), stored.data(), out.size());
      break;
    case Codec::zstd: {
      // Exactly one zstd frame of the right length: decompression alone would also accept several,
      // and skippable ones between them.
      if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != frame.raw ||
          ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size()) {
        corrupt(index, "not one zstd frame of its length");
      }
      if (!context_) context_.reset(ZSTD_createDCtx());
      if (!context_) throw std::bad_alloc();
      const std::size_t n =
          ZSTD_decompressDCtx(context_.get(), out.data(), out.size(), stored.data(), stored.size());
      if (ZSTD_isError(n) || n != out.size()) corrupt(index, "zstd data is damaged");
      break;
    }
  }
  if (xxh3_64(out) != frame.checksum) corrupt(index, "checksum differs");
}

std::span<std::byte> FrameDecoder::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return std::span(scratch_).first(bytes);
}

}  // namespace kfdcp
