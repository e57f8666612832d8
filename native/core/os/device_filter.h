// Restricts the render nodes that the processes of one cgroup may open: an eBPF program of the type
// that container engines use for their device rules (cgroup v2).
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kfdcp {

/// A program that denies render nodes other than those with `render_minors`, and nothing else.
std::vector<bpf_insn> device_filter(std::span<const std::uint32_t> render_minors);

/// Attaches such a program to the cgroup with directory `cgroup`. It goes with the cgroup. Programs
/// of the cgroups above have their say as before. Throws Error{io}.
void attach_device_filter(const std::string& cgroup, std::span<const std::uint32_t> render_minors);

}  // namespace kfdcp
