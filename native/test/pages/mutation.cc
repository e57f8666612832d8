#include "test/pages/mutation.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"

namespace kfdcp::test {
namespace {

/// Values at which sizes, counts and offsets go wrong.
std::uint64_t edge(Random& random, std::size_t file_size) {
  const std::uint64_t edges[] = {0,        1,          64,         4096,          1u << 20,
                                 4u << 20, 0x7fffffff, 0xffffffff, 1ull << 32,    1ull << 63,
                                 ~0ull,    ~0ull - 63, file_size,  file_size - 64};
  const std::uint64_t value = edges[random.below(std::size(edges))];
  return value + random.below(3) - 1;
}

/// Mutations gather where the structure is, in the first 256 and the last kilobytes.
std::size_t place(Random& random, std::size_t size) {
  const std::size_t kind = random.below(4);
  if (kind == 0) return random.below(size);
  if (kind == 1) return random.below(std::min<std::size_t>(size, 256));
  return size - 1 - random.below(std::min<std::size_t>(size, kind == 2 ? 2048 : 512));
}

void mutate(Bytes& file, Random& random) {
  if (file.empty()) return;
  const std::size_t at = place(random, file.size());
  const auto position = file.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random.below(8)) {
    case 0:
    case 1:
      file[at] ^= std::byte{1} << random.below(8);
      break;
    case 2:
      file[at] = static_cast<std::byte>(random.next());
      break;
    case 3:
    case 4: {  // a field of 4 or 8 bytes
      const std::size_t width = random.below(2) == 0 ? 4 : 8;
      const std::size_t field = at & ~(width - 1);
      const std::uint64_t value = edge(random, file.size());
      if (field + width <= file.size()) std::memcpy(file.data() + field, &value, width);
      break;
    }
    case 5: {  // one part over another
      const std::size_t from = random.below(file.size()) & ~std::size_t{31};
      const std::size_t to = at & ~std::size_t{31};
      const std::size_t length =
          std::min<std::size_t>(32 << random.below(3), file.size() - std::max(from, to));
      std::memmove(file.data() + to, file.data() + from, length);
      break;
    }
    case 6:  // shorter, at the end or inside
      if (random.below(2) == 0) {
        file.resize(at);
      } else {
        const std::size_t length = std::min<std::size_t>(64 << random.below(4), file.size() - at);
        file.erase(position, position + static_cast<std::ptrdiff_t>(length));
      }
      break;
    default:
      file.insert(position, std::size_t{64} << random.below(4), std::byte{0});
  }
}

}  // namespace

Bytes mutant_of(Bytes file, Random& random) {
  for (std::size_t n = 1 + random.below(4); n > 0; --n) mutate(file, random);
  return file;
}

}  // namespace kfdcp::test
