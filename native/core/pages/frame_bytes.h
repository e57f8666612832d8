// Bytes of files: views of plain structs, and a test for zeros.
#pragma once

#include <bit>
#include <cstddef>
#include <span>
#include <type_traits>

namespace kfdcp {

// The files are little-endian and so is every host with an AMD GPU driver; structs are written as
// they lie in memory.
static_assert(std::endian::native == std::endian::little);

/// The bytes of a struct without padding, as they go into a file.
template <typename T>
requires std::has_unique_object_representations_v<T> std::span<const std::byte> bytes_of(
    const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}
template <typename T>
requires std::has_unique_object_representations_v<T> std::span<std::byte> writable_bytes_of(
    T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}

bool all_zero(std::span<const std::byte> bytes);

}  // namespace kfdcp
