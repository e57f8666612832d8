#include "core/copy/sdma_packets.h"

#include <amdgpu_drm.h>

#include <algorithm>
#include <string>

#include "core/os/error.h"

namespace kfdcp {
namespace {

// Packet fields as the kernel's sdma_v4_0 ... sdma_v7_0 and cik_sdma write them. NOP is dword 0.
constexpr std::uint32_t kLinearCopy = 1;  // opcode COPY, sub-opcode LINEAR
constexpr std::size_t kCopyDwords = 7;
constexpr std::size_t kFetchDwords = 8;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

SdmaRules sdma_rules(std::uint32_t family) {
  if (family < AMDGPU_FAMILY_CI) {
    throw Error(ErrorCode::unsupported,
                "gpu family " + std::to_string(family) + ": no known sdma packet format");
  }
  // Before SDMA 4 the field is the byte count, with 21 bits. Since SDMA 4 it is the byte count less
  // one, with at least 22 bits. Newer chips take up to 2^30 bytes; a slot is smaller.
  if (family < AMDGPU_FAMILY_AI) return {.count_bias = 0, .max_copy_bytes = 0x1ff000};
  return {.count_bias = 1, .max_copy_bytes = 0x400000};
}

std::uint32_t sdma_linear_copy(const SdmaRules& rules, std::span<std::uint32_t> ib,
                               std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  const std::uint64_t packets = bytes / rules.max_copy_bytes + (bytes % rules.max_copy_bytes != 0);
  if (packets > ib.size() / kFetchDwords) {  // one fetch each: an upper bound that cannot overflow
    throw Error(ErrorCode::gpu, "sdma copy of " + std::to_string(bytes) +
                                    " bytes: the command buffer holds " +
                                    std::to_string(ib.size()) + " dwords");
  }
  std::size_t at = 0;
  while (bytes > 0) {
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, rules.max_copy_bytes));
    const std::uint32_t packet[kCopyDwords] = {
        kLinearCopy, n - rules.count_bias, 0, low(from), high(from), low(to), high(to)};
    std::copy(std::begin(packet), std::end(packet), ib.begin() + static_cast<std::ptrdiff_t>(at));
    at += kCopyDwords;
    from += n;
    to += n;
    bytes -= n;
  }
  while (at % kFetchDwords != 0) ib[at++] = 0;
  return static_cast<std::uint32_t>(at);
}

}  // namespace kfdcp
