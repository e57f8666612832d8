// Splits 16-bit elements: first all low bytes, then all high bytes. In floats the high bytes hold
// sign and exponent, which compress well in weights. The low bytes hardly compress.
#pragma once

#include <cstddef>
#include <span>

namespace kfdcp {

/// `planes` has the size of `content`: the bytes at even places, then those at odd ones.
void split_planes(std::span<const std::byte> content, std::span<std::byte> planes);
/// Undoes it. The two may not overlap.
void join_planes(std::span<const std::byte> planes, std::span<std::byte> content);

}  // namespace kfdcp
