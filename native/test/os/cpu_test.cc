#include "core/os/cpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/os/text_file.h"

namespace kfdcp::test {

namespace {

bool has_flag(std::string_view flag) {
  const std::string info = read_text("/proc/cpuinfo").value_or("");
  std::string_view rest = info;
  while (auto line = take_line(rest)) {
    if (!line->starts_with("flags")) continue;
    for (auto word = take_word(*line); !word.empty(); word = take_word(*line)) {
      if (word == flag) return true;
    }
    return false;
  }
  return false;
}

}  // namespace

TEST_CASE("cpu: the size of saved registers is known where the kernel has XSAVE") {
  CHECK(cpu::xsave_bytes().has_value() == has_flag("xsave"));
}

#ifdef __x86_64__
TEST_CASE("cpu: XSAVE writes as many bytes as are said") {
  const auto bytes = cpu::xsave_bytes();
  if (!bytes) return;  // an old CPU: the case above says so
  // Legacy area and header. Far more than all components of today's CPUs.
  REQUIRE(*bytes >= 576);
  alignas(64) static std::array<unsigned char, 65536> area;
  REQUIRE(*bytes < area.size());
  area.fill(0xa5);
  // XSAVE reads the header, whose unknown bytes must be 0.
  std::fill_n(area.begin() + 512, 64, 0);
  asm volatile("xsave %0" : "+m"(area) : "a"(-1), "d"(-1));
  const auto untouched = [](unsigned char byte) { return byte == 0xa5; };
  CHECK(std::all_of(area.begin() + *bytes, area.end(), untouched));
  // The last component ends there; each has at least 8 bytes.
  CHECK_FALSE(std::all_of(area.begin() + *bytes - 8, area.begin() + *bytes, untouched));
}
#endif

}  // namespace kfdcp::test
