// The codec of frames, and their stored size.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <zstd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>

#include "core/os/page_memory.h"
#include "core/pages/byte_planes.h"
#include "core/pages/frame_codec.h"
#include "core/pages/hash.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {
namespace {

constexpr std::uint32_t kFrame = 2u << 20;
const KnownFrames kNothing;

/// Weights as networks have them: bf16, normally distributed around 0.
Bytes weights(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  const auto uniform = [&] { return static_cast<double>((random.next() >> 11) + 1) * 0x1p-53; };
  Bytes out(size);
  for (std::size_t i = 0; i + 1 < size; i += 2) {
    const auto value = static_cast<float>(0.02 * std::sqrt(-2 * std::log(uniform())) *
                                          std::cos(2 * std::numbers::pi * uniform()));
    std::memcpy(&out[i], reinterpret_cast<const std::byte*>(&value) + 2, 2);  // its upper half
  }
  return out;
}

PagesOptions options(Compress compress) {
  PagesOptions out;
  out.compress = compress;
  out.frame_bytes = kFrame;
  return out;
}

/// Bytes of a pages file with one buffer.
std::uint64_t file_bytes(Compress compress, const Bytes& content) {
  const UniqueFd fd = memory_file();
  const std::uint64_t bytes = write_pages(fd.get(), options(compress), {{1, content}}).file_bytes;
  REQUIRE(read_pages(PagesReader(fd.get())) == std::vector<Content>{{1, content}});
  return bytes;
}

TEST_CASE("codecs: planes come apart and together") {
  for (const std::size_t size : {1u, 2u, 3u, 63u, 4096u, 70001u}) {
    CAPTURE(size);
    const Bytes content = noise(size, size);
    Bytes planes(size), back(size);
    split_planes(content, planes);
    CHECK(planes[0] == content[0]);
    if (size > 1) CHECK(planes[size - size / 2] == content[1]);
    if (size > 2) CHECK(planes[1] == content[2]);
    join_planes(planes, back);
    CHECK(back == content);
  }
}

TEST_CASE("codecs: bf16 weights with a third of zeros are less than two thirds") {
  Bytes content = weights(6 * kFrame, 1);
  std::fill(content.begin() + 4 * kFrame, content.end(), std::byte{0});
  const double raw = static_cast<double>(content.size());
  CHECK(raw / static_cast<double>(file_bytes(Compress::zstd, content)) > 2.1);
  CHECK(raw / static_cast<double>(file_bytes(Compress::none, content)) < 1.51);
  // Without the zeros, the byte planes make it smaller.
  content.resize(4 * kFrame);
  CHECK(static_cast<double>(content.size()) /
            static_cast<double>(file_bytes(Compress::zstd, content)) >
        1.4);
}

TEST_CASE("codecs: what does not shrink takes half a per cent more at most") {
  const Bytes content = noise(8 * kFrame, 2);
  for (const Compress compress :
       {Compress::none, Compress::automatic, Compress::lz4, Compress::zstd}) {
    CHECK(file_bytes(compress, content) <= content.size() + content.size() / 200);
  }
}

TEST_CASE("codecs: each gets the frames it is made for") {
  const WriteCost cost;
  const auto codec = [&](Compress compress, const Bytes& content) {
    FrameEncoder encoder(options(compress), cost, kNothing);
    return encoder.encode(content).codec;
  };
  for (const std::size_t size : {std::size_t{70001}, std::size_t{kFrame}}) {
    CHECK(codec(Compress::zstd, text(size, 1)) != Codec::raw);
    CHECK(codec(Compress::zstd, weights(size, 1)) == Codec::planes);
    CHECK(codec(Compress::zstd, noise(size, 1)) == Codec::raw);
    CHECK(codec(Compress::zstd, Bytes(size)) == Codec::zero);
    CHECK(codec(Compress::lz4, text(size, 1)) == Codec::lz4);
    CHECK(codec(Compress::lz4, noise(size, 1)) == Codec::raw);
    CHECK(codec(Compress::none, text(size, 1)) == Codec::raw);
    CHECK(codec(Compress::none, Bytes(size)) == Codec::zero);
  }
  CHECK(codec(Compress::zstd, text(100, 1)) == Codec::zstd);
}

/// Codec of frame `n` when writing takes that long.
Codec automatic(const Bytes& content, std::uint64_t nanoseconds_per_byte, int n = 1) {
  WriteCost cost;
  cost.add(kFrame, kFrame * nanoseconds_per_byte);
  FrameEncoder encoder(options(Compress::automatic), cost, kNothing);
  Codec codec{};
  for (int i = 0; i < n; ++i) codec = encoder.encode(content).codec;
  return codec;
}

TEST_CASE("codecs: automatic is raw on a fast disk and small on a slow one") {
  // A byte an hour, and none at all: no machine is slow or fast enough to change the choice.
  constexpr std::uint64_t kSlow = 3'600'000'000'000;
  CHECK(automatic(weights(kFrame, 1), kSlow) == Codec::planes);
  CHECK(automatic(text(kFrame, 1), kSlow) != Codec::raw);
  CHECK(automatic(noise(kFrame, 1), kSlow) == Codec::raw);
  CHECK(automatic(weights(kFrame, 1), 0, 3) == Codec::raw);
  CHECK(automatic(text(kFrame, 1), 0, 3) == Codec::raw);
  const WriteCost unknown;
  FrameEncoder encoder(options(Compress::automatic), unknown, kNothing);
  CHECK(encoder.encode(text(kFrame, 1)).codec == Codec::raw);
}

TEST_CASE("codecs: what writing costs is that of the last megabytes") {
  WriteCost cost;
  CHECK(cost.ns_per_byte() == 0);
  cost.add(1u << 20, 5u << 20);
  CHECK(cost.ns_per_byte() == doctest::Approx(5));
  for (int i = 0; i < 100; ++i) cost.add(2u << 20, 2u << 20);
  CHECK(cost.ns_per_byte() == doctest::Approx(1));
  cost.add(0, 1000);
  CHECK(cost.ns_per_byte() == doctest::Approx(1));
}

TEST_CASE("codecs: a frame is one frame of zstd, and nothing before or behind it") {
  const Bytes content = text(3000, 1);
  Bytes sound(ZSTD_compressBound(content.size()));
  sound.resize(ZSTD_compress(sound.data(), sound.size(), content.data(), content.size(), 1));
  const auto code = [&](const Bytes& stored) {
    const FrameEntry frame{0, static_cast<std::uint32_t>(stored.size()), 3000, Codec::zstd,
                           xxh3_64(content)};
    Bytes out(content.size());
    return code_of([&] { FrameDecoder().decode(frame, 0, stored, out); });
  };
  CHECK(code(sound) == std::nullopt);
  // Of no content: readers of zstd pass over it.
  Bytes skippable(8);
  const std::uint32_t magic = ZSTD_MAGIC_SKIPPABLE_START;
  std::memcpy(skippable.data(), &magic, sizeof magic);
  Bytes before = skippable, behind = sound;
  before.insert(before.end(), sound.begin(), sound.end());
  behind.insert(behind.end(), skippable.begin(), skippable.end());
  CHECK(code(before) == ErrorCode::corrupt);
  CHECK(code(behind) == ErrorCode::corrupt);
}

TEST_CASE("codecs: nothing behind a frame of planes that was cut is read") {
  const Bytes content = weights(70001, 1);
  const WriteCost cost;
  FrameEncoder encoder(options(Compress::zstd), cost, kNothing);
  const EncodedFrame whole = encoder.encode(content);
  REQUIRE(whole.codec == Codec::planes);
  const Mapping memory = page_memory(32 * kPageBytes);
  std::byte* const end = memory.data() + memory.size() - kPageBytes;
  REQUIRE(::mprotect(end, kPageBytes, PROT_NONE) == 0);
  Bytes out(content.size());
  // All are in the first of its two frames of zstd.
  for (const std::size_t length : {std::size_t{0}, std::size_t{3}, whole.stored.size() / 4}) {
    CAPTURE(length);
    const std::span<std::byte> stored(end - length, length);
    std::copy_n(whole.stored.begin(), length, stored.begin());
    const FrameEntry frame{0, static_cast<std::uint32_t>(length),
                           static_cast<std::uint32_t>(out.size()), Codec::planes, whole.checksum};
    CHECK(code_of([&] { FrameDecoder().decode(frame, 0, stored, out); }) == ErrorCode::corrupt);
  }
}

TEST_CASE("codecs: a compressor is asked for what it was made for") {
  Compressor compressor(1, 4096);
  const Bytes content = text(4097, 1);
  CHECK(code_of([&] { compressor.compress(Codec::lz4, content, 100); }) == ErrorCode::protocol);
  CHECK(code_of([&] { compressor.compress(Codec::raw, std::span(content).first(8), 8); }) ==
        ErrorCode::protocol);
}

}  // namespace
}  // namespace kfdcp::test
