// XXH3: the checksum of all files. It finds damage; it is no defence against forgery.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace kfdcp {

/// XXH3-64, seed 0.
std::uint64_t xxh3_64(std::span<const std::byte> bytes);

/// XXH3-128, seed 0, in the canonical (big-endian) order xxHash prints it in.
using Digest128 = std::array<std::uint8_t, 16>;
Digest128 xxh3_128(std::span<const std::byte> bytes);

/// Both at once, in one pass.
struct HashPair {
  std::uint64_t h64;
  Digest128 h128;
};
HashPair xxh3_both(std::span<const std::byte> bytes);

/// XXH3-128 over bytes that arrive in pieces. Throws std::bad_alloc only.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;

  void update(std::span<const std::byte> bytes);
  Digest128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kfdcp
