// Properties of the CPU that no file of /proc tells.
#pragma once

#include <cstdint>
#include <optional>

namespace kfdcp::cpu {

/// Bytes that XSAVE writes at most for the register state that this kernel enables: CPUID leaf 0xD,
/// sub-leaf 0, EBX (Intel SDM volume 1, section 13.2). nullopt without XSAVE, and on other machines
/// than x86-64. Needs no privilege.
std::optional<std::uint32_t> xsave_bytes();

}  // namespace kfdcp::cpu
