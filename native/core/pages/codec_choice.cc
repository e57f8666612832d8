#include "core/pages/codec_choice.h"

#include <algorithm>
#include <chrono>

namespace kfdcp {

namespace {

/// Stored bytes over which the cost of writing is averaged.
constexpr std::uint64_t kWindow = 8u << 20;
constexpr std::size_t kPieces = 4;
constexpr std::size_t kLongestPiece = 8192;
/// In smaller contents the parts of a sample are too short to predict anything.
constexpr std::size_t kSmallestContent = 16u << 10;
/// How fast a codec that was too slow is given another chance: after some 200 frames if it took ten
/// times too long, which then costs a twentieth.
constexpr double kForget = 0.99;
/// Share of the content that byte planes must save: joining them is another pass.
constexpr double kWorthAPass = 1.0 / 32;

std::size_t place(Codec codec) { return static_cast<std::size_t>(codec); }

}  // namespace

void WriteCost::add(std::uint64_t bytes, std::uint64_t nanoseconds) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  bytes_ = std::min(bytes_ + bytes, std::max(kWindow, bytes));
  const double now = static_cast<double>(nanoseconds) / static_cast<double>(bytes);
  ns_per_byte_ += (now - ns_per_byte_) * static_cast<double>(bytes) / static_cast<double>(bytes_);
}

double WriteCost::ns_per_byte() const {
  const std::lock_guard lock(mutex_);
  return ns_per_byte_;
}

CodecChooser::CodecChooser(Compress compress, const WriteCost& write, Compressor& compressor)
    : compress_(compress), write_(write), compressor_(compressor) {}

Codec CodecChooser::choose(std::span<const std::byte> content) {
  if (compress_ == Compress::none) return Codec::raw;
  if (compress_ == Compress::lz4) return Codec::lz4;
  if (content.size() < kSmallestContent) {
    return compress_ == Compress::zstd ? Codec::zstd : Codec::raw;
  }
  if (compress_ == Compress::zstd) return smallest(sample(content));
  return write_.ns_per_byte() > 0 ? affordable(sample(content)) : Codec::raw;
}

void CodecChooser::took(Codec codec, std::size_t bytes, double nanoseconds) {
  double& expected = expected_[place(codec)];
  expected = (expected + nanoseconds / static_cast<double>(bytes)) / 2;
}

/// Pieces from all over the frame, each at an even place: 16-bit elements stay whole.
std::span<const std::byte> CodecChooser::sample(std::span<const std::byte> content) {
  const std::size_t piece = std::min(kLongestPiece, content.size() / 16 & ~std::size_t{1});
  sample_.resize(kPieces * piece);
  for (std::size_t i = 0; i < kPieces; ++i) {
    const std::size_t from = (content.size() - piece) / (kPieces - 1) * i & ~std::size_t{1};
    std::copy_n(content.data() + from, piece, sample_.data() + i * piece);
  }
  return sample_;
}

CodecChooser::Trial CodecChooser::try_on(Codec codec, std::span<const std::byte> sample) {
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t bytes =
      compressor_.compress(codec, sample, most_worth_keeping(sample.size())).size();
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  const auto size = static_cast<double>(sample.size());
  return {codec, bytes == 0 ? 2 : static_cast<double>(bytes) / size, time.count() / size};
}

/// zstd as it is, or of the byte planes where they gain enough.
Codec CodecChooser::smallest(std::span<const std::byte> sample) {
  const Trial planes = try_on(Codec::planes, sample);
  const Trial whole = try_on(Codec::zstd, sample);
  return planes.ratio + kWorthAPass < whole.ratio ? Codec::planes : Codec::zstd;
}

Codec CodecChooser::affordable(std::span<const std::byte> sample) {
  const double write = write_.ns_per_byte();
  Trial best{Codec::raw, 1, 0};
  for (const Codec codec : {Codec::lz4, Codec::zstd, Codec::planes}) {
    double& expected = expected_[place(codec)];
    expected *= kForget;
    if (expected > write) continue;  // not worth a sample
    // The first call allocates memory that later calls reuse.
    if (expected == 0) try_on(codec, sample);
    const Trial trial = try_on(codec, sample);
    // Before the first whole frame only the sample is known.
    if (expected == 0 || trial.ns_per_byte > write) expected = trial.ns_per_byte;
    const double cost = std::max(expected, trial.ns_per_byte);
    if (cost + trial.ratio * write <= write && trial.ratio < best.ratio) best = trial;
  }
  return best.codec;
}

}  // namespace kfdcp
