#include "core/os/pattern.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "core/os/error.h"

using namespace kfdcp;

TEST_CASE("pattern: pieces differ everywhere, and the first difference is named") {
  std::vector<std::byte> bytes(4096);
  write_pattern(bytes, 7, 8192);
  check_pattern("x", bytes, 7, 8192);
  CHECK_THROWS_AS(check_pattern("x", bytes, 8, 8192), Error);
  CHECK_THROWS_AS(check_pattern("x", bytes, 7, 4096), Error);
  for (const std::size_t at : {0, 1, 7, 8, 100, 4095}) {
    auto wrong = bytes;
    wrong[at] ^= std::byte{1};
    const std::string expected = "x: byte " + std::to_string(8192 + at) + " is 0x";
    CHECK_THROWS_WITH_AS(check_pattern("x", wrong, 7, 8192), doctest::Contains(expected.c_str()),
                         Error);
  }
}

TEST_CASE("pattern: the last word may be a part of one") {
  std::vector<std::byte> whole(24), part(24, std::byte{0xee});
  write_pattern(whole, 3, 64);
  write_pattern(std::span(part).first(21), 3, 64);
  CHECK(part[20] == whole[20]);
  CHECK(part[21] == std::byte{0xee});
  CHECK(!pattern_difference(std::span(part).first(21), 3, 64));
  const auto difference = pattern_difference(part, 3, 64);
  REQUIRE(difference);
  CHECK(difference->at == 64 + 21);
  CHECK(difference->is == std::byte{0xee});
  CHECK(difference->expected == whole[21]);
}
