// Known contents.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kfdcp::selftest {

/// Writes what the piece of memory `key` holds from byte `at` on, a multiple of 8. The size is one,
/// too. Pieces with different keys have no word in common at the same place.
void write_pattern(std::span<std::byte> out, std::uint64_t key, std::uint64_t at);

/// Throws Error{corrupt} "<what>: byte <n> is 0x.., expected 0x.." for the first difference.
void check_pattern(const std::string& what, std::span<const std::byte> bytes, std::uint64_t key,
                   std::uint64_t at);

}  // namespace kfdcp::selftest
