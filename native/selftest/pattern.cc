#include "selftest/pattern.h"

#include <cstdio>
#include <cstring>

#include "core/os/error.h"

namespace kfdcp::selftest {
namespace {

std::uint64_t word_of(std::uint64_t key, std::uint64_t at) {
  return (at / 8 + 1) * 0x9e3779b97f4a7c15ull ^ key * 0xd6e8feb86659fd93ull;
}

}  // namespace

void write_pattern(std::span<std::byte> out, std::uint64_t key, std::uint64_t at) {
  for (std::size_t i = 0; i < out.size(); i += 8) {
    const std::uint64_t word = word_of(key, at + i);
    std::memcpy(out.data() + i, &word, sizeof word);
  }
}

void check_pattern(const std::string& what, std::span<const std::byte> bytes, std::uint64_t key,
                   std::uint64_t at) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::uint64_t word = word_of(key, at + i / 8 * 8);
    if (i % 8 == 0 && std::memcmp(bytes.data() + i, &word, sizeof word) == 0) {
      i += 7;
      continue;
    }
    const auto expected = static_cast<std::byte>(word >> i % 8 * 8);
    if (bytes[i] == expected) continue;
    char text[80];
    std::snprintf(text, sizeof text, ": byte %llu is 0x%02x, expected 0x%02x",
                  static_cast<unsigned long long>(at + i), static_cast<unsigned>(bytes[i]),
                  static_cast<unsigned>(expected));
    throw Error(ErrorCode::corrupt, what + text);
  }
}

}  // namespace kfdcp::selftest
