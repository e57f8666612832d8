// Whole reads and writes at an offset, and views of plain structs as bytes.
#pragma once

#include <sys/uio.h>

#include <bit>
#include <cstddef>
#include <cstdint>
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

/// `alignment` is a power of two; the caller has bounded `value` well below 2^64.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

bool all_zero(std::span<const std::byte> bytes);

/// Fills `out` from `offset` (bytes) of `fd`. Throws Error{io} for a failed call, Error{corrupt}
/// when the file ends first; `subject` starts the message.
void read_exactly(int fd, std::span<std::byte> out, std::uint64_t offset, const char* subject);

/// What is left of `parts`, which together have `bytes` bytes at least, without the first of them;
/// it does not begin with an empty part.
std::span<iovec> without_first(std::span<iovec> parts, std::size_t bytes);

/// Writes all of `parts`, in order, at `offset` (bytes) of `fd`; uses `parts` up. Throws Error{io}.
void write_exactly(int fd, std::span<iovec> parts, std::uint64_t offset, const char* subject);

/// `bytes` as one part of a gathering write.
iovec write_part(std::span<const std::byte> bytes);

}  // namespace kfdcp
