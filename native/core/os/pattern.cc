#include "core/os/pattern.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/os/error.h"

namespace kfdcp {
namespace {

std::uint64_t word_of(std::uint64_t key, std::uint64_t at) {
  return (at / 8 + 1) * 0x9e3779b97f4a7c15ull ^ key * 0xd6e8feb86659fd93ull;
}

/// Bytes of the word at `i`; the last word may be a part of one.
std::size_t part_of_word(std::size_t size, std::size_t i) {
  return std::min<std::size_t>(8, size - i);
}

}  // namespace

void write_pattern(std::span<std::byte> out, std::uint64_t key, std::uint64_t at) {
  for (std::size_t i = 0; i < out.size(); i += 8) {
    const std::uint64_t word = word_of(key, at + i);
    std::memcpy(out.data() + i, &word, part_of_word(out.size(), i));
  }
}

std::optional<PatternDifference> pattern_difference(std::span<const std::byte> bytes,
                                                    std::uint64_t key, std::uint64_t at) {
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = word_of(key, at + i);
    const std::size_t part = part_of_word(bytes.size(), i);
    if (std::memcmp(bytes.data() + i, &word, part) == 0) continue;
    for (std::size_t j = 0; j < part; ++j) {
      const auto expected = static_cast<std::byte>(word >> j * 8);
      if (bytes[i + j] != expected) return PatternDifference{at + i + j, bytes[i + j], expected};
    }
  }
  return std::nullopt;
}

void check_pattern(const std::string& what, std::span<const std::byte> bytes, std::uint64_t key,
                   std::uint64_t at) {
  const auto difference = pattern_difference(bytes, key, at);
  if (!difference) return;
  char text[80];
  std::snprintf(text, sizeof text, ": byte %llu is 0x%02x, expected 0x%02x",
                static_cast<unsigned long long>(difference->at),
                static_cast<unsigned>(difference->is), static_cast<unsigned>(difference->expected));
  throw Error(ErrorCode::corrupt, what + text);
}

}  // namespace kfdcp
