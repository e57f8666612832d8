#include "test/os/random_bytes.h"

#include <cstdlib>

namespace kfdcp::test {

std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> out(size);
  for (std::byte& b : out) b = static_cast<std::byte>(random.next());
  return out;
}

std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace kfdcp::test
