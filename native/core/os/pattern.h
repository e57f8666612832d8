// Known contents, for trials of memory and of what copies it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace kfdcp {

/// Writes what the piece of memory `key` holds from byte `at` on, a multiple of 8. Pieces with
/// different keys have no word in common at the same place.
void write_pattern(std::span<std::byte> out, std::uint64_t key, std::uint64_t at);

struct PatternDifference {
  std::uint64_t at;  // byte of the piece
  std::byte is, expected;
};

/// The first byte that is not what write_pattern() writes.
std::optional<PatternDifference> pattern_difference(std::span<const std::byte> bytes,
                                                    std::uint64_t key, std::uint64_t at);

/// Throws Error{corrupt} "<what>: byte <n> is 0x.., expected 0x.." for the first difference.
void check_pattern(const std::string& what, std::span<const std::byte> bytes, std::uint64_t key,
                   std::uint64_t at);

}  // namespace kfdcp
