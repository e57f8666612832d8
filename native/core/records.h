// Sections of a file as vectors of plain structs, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace kfdcp {

/// Writes `values` over the front of `out`, which has room for them.
template <typename T>
requires std::is_trivially_copyable_v<T>
void put(std::span<std::byte>& out, std::span<const T> values) {
  if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
  out = out.subspan(values.size_bytes());
}

/// Takes `n` values off the front; the caller has checked that they are there.
template <typename T>
requires std::is_trivially_copyable_v<T> std::vector<T> take(std::span<const std::byte>& in,
                                                             std::size_t n) {
  std::vector<T> out(n);
  if (n > 0) std::memcpy(out.data(), in.data(), n * sizeof(T));
  in = in.subspan(n * sizeof(T));
  return out;
}

}  // namespace kfdcp
