// The filter's program, run step by step on made-up accesses; the scenarios run it in a kernel.
#include "core/os/device_filter.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>

namespace kfdcp::test {
namespace {

/// What `program` answers for one access: 1 allowed, 0 denied. Fails on what it does not know.
std::uint64_t answer(const std::vector<bpf_insn>& program, const bpf_cgroup_dev_ctx& access) {
  std::array<std::uint64_t, 11> registers{};
  for (std::size_t at = 0; at < program.size(); ++at) {
    const bpf_insn& step = program[at];
    std::uint64_t& target = registers.at(step.dst_reg);
    const auto value = static_cast<std::uint64_t>(step.imm);
    const auto jump = [&](bool taken) { at += taken ? static_cast<std::size_t>(step.off) : 0; };
    switch (step.code) {
      case BPF_LDX | BPF_MEM | BPF_W: {
        std::uint32_t word = 0;
        std::memcpy(&word, reinterpret_cast<const char*>(&access) + step.off, sizeof word);
        target = word;
        break;
      }
      case BPF_ALU64 | BPF_AND | BPF_K:
        target &= value;
        break;
      case BPF_ALU64 | BPF_MOV | BPF_K:
        target = value;
        break;
      case BPF_JMP | BPF_JNE | BPF_K:
        jump(target != value);
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        jump(target == value);
        break;
      case BPF_JMP | BPF_JLT | BPF_K:
        jump(target < value);
        break;
      case BPF_JMP | BPF_EXIT:
        return registers[0];
      default:
        FAIL("unknown instruction ", static_cast<int>(step.code));
    }
  }
  FAIL("the program has no end");
  return 2;
}

bpf_cgroup_dev_ctx access(std::uint32_t type, std::uint32_t major, std::uint32_t minor) {
  return {.access_type = (BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE) << 16 | type,
          .major = major,
          .minor = minor};
}

TEST_CASE("device filter: only render nodes that are not named are denied") {
  const std::uint32_t minors[] = {128, 130, 191};
  const auto program = device_filter(minors);
  for (const std::uint32_t minor : minors) {
    CHECK(answer(program, access(BPF_DEVCG_DEV_CHAR, 226, minor)) == 1);
  }
  for (const std::uint32_t minor : {129u, 131u, 190u, 192u, 0xfffffu}) {
    CHECK(answer(program, access(BPF_DEVCG_DEV_CHAR, 226, minor)) == 0);
  }
  CHECK(answer(program, access(BPF_DEVCG_DEV_CHAR, 226, 0)) == 1);  // a card
  CHECK(answer(program, access(BPF_DEVCG_DEV_CHAR, 226, 127)) == 1);
  CHECK(answer(program, access(BPF_DEVCG_DEV_CHAR, 234, 129)) == 1);  // KFD, say
  CHECK(answer(program, access(BPF_DEVCG_DEV_BLOCK, 226, 129)) == 1);
}

TEST_CASE("device filter: none named") {
  const auto program = device_filter({});
  CHECK(answer(program, access(BPF_DEVCG_DEV_CHAR, 226, 128)) == 0);
  CHECK(answer(program, access(BPF_DEVCG_DEV_CHAR, 226, 1)) == 1);
}

}  // namespace
}  // namespace kfdcp::test
