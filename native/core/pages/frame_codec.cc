#include "core/pages/frame_codec.h"

#include <lz4.h>
#include <zstd.h>

#include <chrono>
#include <cstring>
#include <new>
#include <string>

#include "core/os/error.h"
#include "core/pages/byte_planes.h"
#include "core/pages/frame_bytes.h"
#include "core/pages/hash.h"

namespace kfdcp {

namespace {

[[noreturn]] void corrupt(std::uint64_t index, const char* reason) {
  throw Error(ErrorCode::corrupt, "pages file: frame " + std::to_string(index) + ": " + reason);
}

/// Runs `work` on `content`, and adds its time to `cost`.
template <class Work>
auto hashing(HashCost& cost, std::span<const std::byte> content, Work&& work) {
  struct Account {
    HashCost& cost;
    std::uint64_t bytes;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    ~Account() { cost += {bytes, std::chrono::steady_clock::now() - begin}; }
  } const account{cost, content.size()};
  return work();
}

}  // namespace

FrameEncoder::FrameEncoder(const PagesOptions& options, const WriteCost& write,
                           const KnownFrames& known)
    : share_(options.share), known_(known) {
  if (options.compress == Compress::none) return;
  compressor_.emplace(options.zstd_level, options.frame_bytes);
  chooser_.emplace(options.compress, write, *compressor_);
}

FrameEncoder::~FrameEncoder() = default;

EncodedFrame FrameEncoder::encode(std::span<const std::byte> content) {
  if (all_zero(content)) return {Codec::zero, 0, {}, {}};
  const HashPair hash = hashing(hash_cost_, content, [&] {
    return share_ ? xxh3_both(content) : HashPair{xxh3_64(content), {}};
  });
  const EncodedFrame raw{Codec::raw, hash.h64, content, hash.h128};
  if (!chooser_) return raw;
  const auto length = static_cast<std::uint32_t>(content.size());
  if (share_ && known_.find({hash.h128, hash.h64, length})) return raw;
  const Codec codec = chooser_->choose(content);
  if (codec == Codec::raw) return raw;
  const auto begin = std::chrono::steady_clock::now();
  const auto stored = compressor_->compress(codec, content, most_worth_keeping(content.size()));
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  chooser_->took(codec, content.size(), time.count());
  if (stored.empty() || stored.size() >= content.size()) return raw;
  return {codec, hash.h64, stored, hash.h128};
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
      // Lengths are at most the length of a frame, far below 2^31.
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
    case Codec::reference:
    case Codec::sibling:
      throw Error(ErrorCode::protocol, "pages file: a reference has nothing to decode");
  }
  hashing(hash_cost_, out, [&] { check_content(frame, index, out); });
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

void check_content(const FrameEntry& frame, std::uint64_t index,
                   std::span<const std::byte> content) {
  if (frame.digest == Digest128{}) {
    if (xxh3_64(content) != frame.checksum) corrupt(index, "checksum differs");
    return;
  }
  const HashPair hash = xxh3_both(content);
  if (hash.h64 != frame.checksum) corrupt(index, "checksum differs");
  if (hash.h128 != frame.digest) corrupt(index, "digest differs");
}

std::span<std::byte> FrameDecoder::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return std::span(scratch_).first(bytes);
}

}  // namespace kfdcp
