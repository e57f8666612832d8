// Numbers and bytes from a seed, equal on every host and in every release: fixtures need that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kfdcp::test {

/// splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }

 private:
  std::uint64_t state_;
};

/// Bytes that do not compress.
std::vector<std::byte> noise(std::size_t size, std::uint64_t seed);

}  // namespace kfdcp::test
