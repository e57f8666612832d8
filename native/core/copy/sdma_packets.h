// The command words of an SDMA linear copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kfdcp {

/// How one GPU family writes a linear copy.
struct SdmaRules {
  std::uint32_t count_bias;      // subtracted from the byte count in the packet
  std::uint32_t max_copy_bytes;  // most bytes of one packet, a multiple of 4096
};

/// Rules of an AMDGPU_FAMILY_* number. Throws Error{unsupported} for families before CI: their
/// DMA engine is another one, and KFD does not drive them.
SdmaRules sdma_rules(std::uint32_t family);

/// Writes packets that copy `bytes` bytes from GPU address `from` to `to` into `ib`, padded with
/// NOPs to the 8 dwords SDMA fetches at a time. Returns the number of dwords written.
/// Throws Error{gpu} when `ib` is too small.
std::uint32_t sdma_linear_copy(const SdmaRules& rules, std::span<std::uint32_t> ib,
                               std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

}  // namespace kfdcp
