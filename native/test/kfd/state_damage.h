// Damage that every kind of state file must show, and forgeries that only its own rules can find.
#pragma once

#include <doctest/doctest.h>

#include <cstring>

#include "core/pages/hash.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"

namespace kfdcp::test {

/// With its checksum made right again: a forger can do that too.
inline Bytes resealed_state(Bytes file) {
  if (file.size() < 8) return file;
  const std::uint64_t checksum = xxh3_64(std::span(file).first(file.size() - 8));
  std::memcpy(file.data() + file.size() - 8, &checksum, 8);
  return file;
}

/// `file` with `value` at `offset`, and a right checksum.
template <typename T>
Bytes forged_state(Bytes file, std::size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
  return resealed_state(std::move(file));
}

/// Every changed bit of `file`, every truncation and a byte more are errors of `decode`.
template <typename Decode>
void check_damage_is_found(Bytes file, Decode&& decode) {
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      file[i] ^= std::byte{1} << bit;
      CHECK_THROWS_AS(decode(file), Error);
      file[i] ^= std::byte{1} << bit;
    }
  }
  for (std::size_t n = 0; n < file.size(); ++n) {
    const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
    CHECK(code_of([&] { decode(cut); }) == ErrorCode::corrupt);
  }
  file.push_back(std::byte{0});
  CHECK(code_of([&] { decode(file); }) == ErrorCode::corrupt);
}

}  // namespace kfdcp::test
