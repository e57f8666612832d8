// Checksums are part of the format: every processor must find the same ones.
#include "core/pages/hash.h"

#include <doctest/doctest.h>

#include "core/pages/hash_kernels.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"

namespace kfdcp::test {
namespace {

std::vector<const HashKernels*> usable_kernels() {
  std::vector<const HashKernels*> all = {&kHashPortable};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) all.push_back(&kHashAvx2);
#endif
  return all;
}

TEST_CASE("hash: of nothing, as xxHash's specification has it") {
  const HashPair none = xxh3_both({});
  CHECK(none.h64 == 0x2d06800538d394c2);
  CHECK(none.h128 == Digest128{0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8, 0x60, 0x01, 0xc3,
                               0x24, 0x46, 0x8d, 0x49, 0x7f});
}

TEST_CASE("hash: both at once are the two, with every kernel") {
  for (const std::size_t size :
       {0u, 1u, 3u, 8u, 16u, 17u, 128u, 129u, 240u, 241u, 255u, 1024u, 1025u, 70001u}) {
    CAPTURE(size);
    const Bytes bytes = noise(size + 1, size);
    for (const std::size_t begin : {0u, 1u}) {  // not aligned, too
      const auto content = std::span(bytes).subspan(begin, size);
      const HashPair pair = xxh3_both(content);
      CHECK(pair.h64 == xxh3_64(content));
      CHECK(pair.h128 == xxh3_128(content));
      for (const HashKernels* kernels : usable_kernels()) {
        HashPair one;
        one.h64 = kernels->both(content.data(), size, one.h128.data());
        CHECK(kernels->hash64(content.data(), size) == pair.h64);
        CHECK(one.h64 == pair.h64);
        CHECK(one.h128 == pair.h128);
      }
    }
  }
}

}  // namespace
}  // namespace kfdcp::test
