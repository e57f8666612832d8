#include "core/copy/sdma_packets.h"

#include <amdgpu_drm.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "core/os/error.h"

using namespace kfdcp;

namespace {

using Ib = std::array<std::uint32_t, 64>;
constexpr std::uint64_t kFrom = 0x7f1234560000;
constexpr std::uint64_t kTo = 0x1fffff000;  // crosses 4 GiB after one page

std::vector<std::uint32_t> copy(const SdmaRules& rules, std::uint64_t bytes) {
  Ib ib;
  ib.fill(0xdeadbeef);
  const std::uint32_t n = sdma_linear_copy(rules, ib, kFrom, kTo, bytes);
  CHECK(ib.at(n) == 0xdeadbeef);
  return {ib.begin(), ib.begin() + n};
}

}  // namespace

TEST_CASE("sdma: one packet, count less one since Vega") {
  const std::vector<std::uint32_t> expected = {1, 0x1fff, 0, 0x34560000, 0x7f12, 0xfffff000, 1, 0};
  CHECK(copy(sdma_rules(AMDGPU_FAMILY_AI), 0x2000) == expected);
  CHECK(copy(sdma_rules(AMDGPU_FAMILY_NV), 0x2000) == expected);
}

TEST_CASE("sdma: the count is the byte count before Vega") {
  CHECK(copy(sdma_rules(AMDGPU_FAMILY_VI), 0x2000)[1] == 0x2000);
  CHECK(copy(sdma_rules(AMDGPU_FAMILY_CI), 1)[1] == 1);
}

TEST_CASE("sdma: long copies are cut at the largest packet, addresses carry into the high dword") {
  for (const std::uint32_t family : {AMDGPU_FAMILY_VI, AMDGPU_FAMILY_AI}) {
    const SdmaRules rules = sdma_rules(family);
    const std::uint64_t bytes = 2ull * rules.max_copy_bytes + 4096;
    const auto ib = copy(rules, bytes);
    REQUIRE(ib.size() == 24);  // 3 * 7, padded
    std::uint64_t done = 0;
    for (std::size_t at = 0; at < 21; at += 7) {
      const std::uint64_t n = ib[at + 1] + rules.count_bias;
      CHECK(ib[at] == 1);
      CHECK(n <= rules.max_copy_bytes);
      CHECK((ib[at + 3] | std::uint64_t{ib[at + 4]} << 32) == kFrom + done);
      CHECK((ib[at + 5] | std::uint64_t{ib[at + 6]} << 32) == kTo + done);
      done += n;
    }
    CHECK(done == bytes);
    CHECK(ib[21] == 0);
    CHECK(ib[23] == 0);
  }
}

TEST_CASE("sdma: the largest packet fits the count field") {
  CHECK(copy(sdma_rules(AMDGPU_FAMILY_AI), 0x400000).size() == 8);
  CHECK(copy(sdma_rules(AMDGPU_FAMILY_AI), 0x400000)[1] == 0x3fffff);
  CHECK(copy(sdma_rules(AMDGPU_FAMILY_AI), 0x400001).size() == 16);
  CHECK(copy(sdma_rules(AMDGPU_FAMILY_VI), 0x1ff000).size() == 8);
}

TEST_CASE("sdma: a command buffer that is too small is refused untouched") {
  Ib ib;
  ib.fill(7);
  const SdmaRules rules = sdma_rules(AMDGPU_FAMILY_AI);
  CHECK_THROWS_AS(sdma_linear_copy(rules, ib, kFrom, kTo, 9ull * rules.max_copy_bytes), Error);
  CHECK_THROWS_AS(sdma_linear_copy(rules, ib, kFrom, kTo, ~0ull), Error);
  CHECK(ib[0] == 7);
  CHECK(sdma_linear_copy(rules, ib, kFrom, kTo, 8ull * rules.max_copy_bytes) == 56);
}

TEST_CASE("sdma: a GPU before CI is unsupported") {
  CHECK_THROWS_WITH_AS(sdma_rules(AMDGPU_FAMILY_SI), "gpu family 110: no known sdma packet format",
                       Error);
}
