#include "pattern.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/os/error.h"

namespace lab {
namespace {

constexpr std::size_t kBlockWords = Pattern::kBlockBytes / sizeof(std::uint64_t);
constexpr std::size_t kTableBlocks = 16;

// Finaliser of the splitmix64 generator (Steele, Lea, Flood 2014): neighbours in, unrelated words
// out.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void xor_words(const std::uint64_t* in, std::uint64_t key, std::byte* out, std::size_t words) {
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = in[i] ^ key;
    std::memcpy(out + i * sizeof word, &word, sizeof word);
  }
}

}  // namespace

Pattern::Pattern(std::uint64_t seed, std::size_t repeats)
    : seed_(seed), table_(kTableBlocks * kBlockWords) {
  std::uint64_t x = mix(seed) | 1;  // xorshift64 never leaves 0
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (i % repeats == 0) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
    }
    table_[i] = x;
  }
}

void Pattern::write(std::uint32_t buffer, std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::uint64_t block = offset / kBlockBytes;
    const std::size_t within = offset % kBlockBytes;
    const std::size_t size = std::min(out.size(), kBlockBytes - within);
    const std::uint64_t key = mix(mix(seed_ ^ (std::uint64_t{buffer} << 32)) ^ block);
    const std::uint64_t* words = &table_[block % kTableBlocks * kBlockWords + within / 8];
    xor_words(words, key, out.data(), size / 8);
    out = out.subspan(size);
    offset += size;
  }
}

void Pattern::check(const std::string& what, std::uint32_t buffer, std::uint64_t offset,
                    std::span<const std::byte> bytes) const {
  std::vector<std::byte> expected(kBlockBytes);
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kBlockBytes);
    write(buffer, offset, std::span(expected).first(size));
    if (std::memcmp(expected.data(), bytes.data(), size) != 0) {
      const auto [want, got] =
          std::mismatch(expected.begin(), expected.begin() + size, bytes.begin());
      char text[96];
      std::snprintf(text, sizeof text, ": byte %llu is 0x%02x, expected 0x%02x",
                    static_cast<unsigned long long>(offset + (want - expected.begin())),
                    static_cast<unsigned>(*got), static_cast<unsigned>(*want));
      throw kfdcp::Error(kfdcp::ErrorCode::corrupt, what + text);
    }
    bytes = bytes.subspan(size);
    offset += size;
  }
}

}  // namespace lab
