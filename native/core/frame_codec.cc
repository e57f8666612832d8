#include "core/frame_codec.h"

#include <lz4.h>
#include <zstd.h>

#include <chrono>
#include <cstring>
#include <new>
#include <string>

#include "core/byte_planes.h"
#include "core/error.h"
#include "core/frame_io.h"
#include "core/hash.h"

namespace kfdcp {

namespace {

[[noreturn]] void corrupt(std::uint64_t index, const char* reason) {
  throw Error(ErrorCode::corrupt, "pages file: frame " + std::to_string(index) + ": " + reason);
}

}  // namespace

FrameEncoder::FrameEncoder(const PagesOptions& options, const WriteCost& write) {
  if (options.compress == Compress::none) return;
  compressor_.emplace(options.zstd_level, options.frame_bytes);
  chooser_.emplace(options.compress, write, *compressor_);
}

FrameEncoder::~FrameEncoder() = default;

EncodedFrame FrameEncoder::encode(std::span<const std::byte> content) {
  if (all_zero(content)) return {Codec::zero, 0, {}};
  const std::uint64_t checksum = xxh3_64(content);
  const Codec codec = chooser_ ? chooser_->choose(content) : Codec::raw;
  if (codec != Codec::raw) {
    const auto begin = std::chrono::steady_clock::now();
    const auto stored = compressor_->compress(codec, content, most_worth_keeping(content.size()));
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    chooser_->took(codec, content.size(), time.count());
    if (!stored.empty() && stored.size() < content.size()) return {codec, checksum, stored};
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
    case Codec::zstd:
      zstd(index, stored, out);
      break;
    case Codec::lz4: {
      // Lengths are at most that of a frame, far below 2^31.
      const int n = LZ4_decompress_safe(
          reinterpret_cast<const char*>(stored.data()), reinterpret_cast<char*>(out.data()),
          static_cast<int>(stored.size()), static_cast<int>(out.size()));
      if (n < 0 || static_cast<std::size_t>(n) != out.size()) {
        corrupt(index, "LZ4 data is damaged");
      }
      break;
    }
    case Codec::planes:
      planes(index, stored, out);
      break;
  }
  if (xxh3_64(out) != frame.checksum) corrupt(index, "checksum differs");
}

void FrameDecoder::zstd(std::uint64_t index, std::span<const std::byte> stored,
                        std::span<std::byte> out) {
  // Exactly one zstd frame of the right length: decompression alone would also accept several,
  // and skippable ones between them.
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != out.size() ||
      ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size()) {
    corrupt(index, "not one zstd frame of its length");
  }
  if (!context_) context_.reset(ZSTD_createDCtx());
  if (!context_) throw std::bad_alloc();
  const std::size_t n =
      ZSTD_decompressDCtx(context_.get(), out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(n) || n != out.size()) corrupt(index, "zstd data is damaged");
}

void FrameDecoder::planes(std::uint64_t index, std::span<const std::byte> stored,
                          std::span<std::byte> out) {
  if (planes_.size() < out.size()) planes_.resize(out.size());
  const std::span<std::byte> both = std::span(planes_).first(out.size());
  const std::size_t first = ZSTD_findFrameCompressedSize(stored.data(), stored.size());
  if (ZSTD_isError(first)) corrupt(index, "not two zstd frames");
  zstd(index, stored.first(first), both.first(out.size() - out.size() / 2));
  zstd(index, stored.subspan(first), both.last(out.size() / 2));
  join_planes(both, out);
}

std::span<std::byte> FrameDecoder::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return std::span(scratch_).first(bytes);
}

}  // namespace kfdcp
