#include "test/os/random_bytes.h"

namespace kfdcp::test {

std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> out(size);
  for (std::byte& b : out) b = static_cast<std::byte>(random.next());
  return out;
}

}  // namespace kfdcp::test
