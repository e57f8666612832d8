#include "core/pages/compressor.h"

#include <lz4.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <new>
#include <string>

#include "core/os/error.h"
#include "core/pages/byte_planes.h"

namespace kfdcp {

namespace {

/// LZ4's own default; more is faster and larger.
constexpr int kLz4Acceleration = 1;

}  // namespace

void Compressor::FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

Compressor::Compressor(int zstd_level, std::uint32_t longest) : out_(longest) {
  context_.reset(ZSTD_createCCtx());
  if (!context_) throw std::bad_alloc();
  const std::size_t rc =
      ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, zstd_level);
  if (ZSTD_isError(rc)) {
    throw Error(ErrorCode::protocol, std::string("zstd level: ") + ZSTD_getErrorName(rc));
  }
}

Compressor::~Compressor() = default;

std::span<const std::byte> Compressor::compress(Codec codec, std::span<const std::byte> content,
                                                std::size_t room) {
  if (content.size() > out_.size() || room > out_.size()) {
    throw Error(ErrorCode::protocol, "compressor: longer than announced");
  }
  if (codec == Codec::lz4) return lz4(content, room);
  if (codec == Codec::zstd) return zstd(content, room);
  if (codec != Codec::planes) throw Error(ErrorCode::protocol, "compressor: not a codec of it");
  planes_.resize(content.size());
  split_planes(content, planes_);
  // A frame for each: within one, both would share the code of a block.
  const std::span<const std::byte> planes(planes_);
  const std::size_t low = zstd(planes.first(content.size() - content.size() / 2), room).size();
  if (low == 0) return {};
  const std::size_t high = zstd(planes.last(content.size() / 2), room, low).size();
  return std::span(out_).first(high == 0 ? 0 : low + high);
}

std::span<const std::byte> Compressor::zstd(std::span<const std::byte> content, std::size_t room,
                                            std::size_t at) {
  // The room is the limit, so zstd gives up as soon as the gain is out of reach.
  const std::size_t n =
      ZSTD_compress2(context_.get(), out_.data() + at, room - at, content.data(), content.size());
  if (!ZSTD_isError(n)) return std::span(out_).subspan(at, n);
  if (ZSTD_getErrorCode(n) == ZSTD_error_dstSize_tooSmall) return {};
  throw Error(ErrorCode::io, std::string("zstd: ") + ZSTD_getErrorName(n));
}

std::span<const std::byte> Compressor::lz4(std::span<const std::byte> content, std::size_t room) {
  if (lz4_state_.empty()) lz4_state_.resize(static_cast<std::size_t>(LZ4_sizeofState()));
  const int n = LZ4_compress_fast_extState(
      lz4_state_.data(), reinterpret_cast<const char*>(content.data()),
      reinterpret_cast<char*>(out_.data()), static_cast<int>(content.size()),
      static_cast<int>(room), kLz4Acceleration);
  return std::span(out_).first(static_cast<std::size_t>(n));  // 0: not enough room
}

}  // namespace kfdcp
