#include "core/os/device_filter.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "core/os/error.h"
#include "core/os/fd.h"

namespace kfdcp {

namespace {

constexpr std::int32_t kDrmMajor = 226;
constexpr std::int32_t kFirstRenderMinor = 128;

/// `reg` is a register number, which has 4 bits in an instruction.
constexpr bpf_insn instruction(unsigned code, unsigned reg, std::size_t offset,
                               std::int32_t value) {
  bpf_insn result{};
  result.code = static_cast<std::uint8_t>(code);
  result.dst_reg = reg & 0xf;
  result.off = static_cast<std::int16_t>(offset);
  result.imm = value;
  return result;
}
constexpr bpf_insn load(unsigned reg, std::size_t offset) {
  bpf_insn result = instruction(BPF_LDX | BPF_MEM | BPF_W, reg, offset, 0);
  result.src_reg = BPF_REG_1;  // the access
  return result;
}
constexpr bpf_insn mask(unsigned reg, std::int32_t bits) {
  return instruction(BPF_ALU64 | BPF_AND | BPF_K, reg, 0, bits);
}
constexpr bpf_insn jump_if(unsigned condition, unsigned reg, std::int32_t value, std::size_t over) {
  return instruction(BPF_JMP | condition | BPF_K, reg, over, value);
}
constexpr bpf_insn set(unsigned reg, std::int32_t value) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, reg, 0, value);
}
constexpr bpf_insn leave() { return instruction(BPF_JMP | BPF_EXIT, 0, 0, 0); }

long bpf(bpf_cmd command, bpf_attr& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

}  // namespace

std::vector<bpf_insn> device_filter(std::span<const std::uint32_t> render_minors) {
  const std::size_t known = render_minors.size();
  // The number of instructions after the jump: the comparisons with the known minors, and the
  // denial.
  std::vector<bpf_insn> program = {
      load(BPF_REG_2, offsetof(bpf_cgroup_dev_ctx, access_type)),
      mask(BPF_REG_2, 0xffff),  // the access is above
      jump_if(BPF_JNE, BPF_REG_2, BPF_DEVCG_DEV_CHAR, known + 6),
      load(BPF_REG_3, offsetof(bpf_cgroup_dev_ctx, major)),
      jump_if(BPF_JNE, BPF_REG_3, kDrmMajor, known + 4),
      load(BPF_REG_4, offsetof(bpf_cgroup_dev_ctx, minor)),
      jump_if(BPF_JLT, BPF_REG_4, kFirstRenderMinor, known + 2),
  };
  for (std::size_t i = 0; i < known; ++i) {
    program.push_back(
        jump_if(BPF_JEQ, BPF_REG_4, static_cast<std::int32_t>(render_minors[i]), known - i + 1));
  }
  program.insert(program.end(), {set(BPF_REG_0, 0), leave(), set(BPF_REG_0, 1), leave()});
  return program;
}

void attach_device_filter(const std::string& cgroup, std::span<const std::uint32_t> render_minors) {
  const UniqueFd directory(::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) throw io_error(cgroup);
  const std::vector<bpf_insn> program = device_filter(render_minors);
  bpf_attr loading{};
  loading.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  loading.expected_attach_type = BPF_CGROUP_DEVICE;
  loading.insns = reinterpret_cast<std::uint64_t>(program.data());
  loading.insn_cnt = static_cast<std::uint32_t>(program.size());
  loading.license = reinterpret_cast<std::uint64_t>("MIT");
  const UniqueFd loaded(static_cast<int>(bpf(BPF_PROG_LOAD, loading)));
  if (!loaded) throw io_error("device filter: load");

  bpf_attr attaching{};
  attaching.target_fd = static_cast<std::uint32_t>(directory.get());
  attaching.attach_bpf_fd = static_cast<std::uint32_t>(loaded.get());
  attaching.attach_type = BPF_CGROUP_DEVICE;
  attaching.attach_flags = BPF_F_ALLOW_MULTI;
  if (bpf(BPF_PROG_ATTACH, attaching) == -1) throw io_error("device filter: attach to " + cgroup);
}

}  // namespace kfdcp
