#include "core/os/cpu.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace kfdcp::cpu {

std::optional<std::uint32_t> xsave_bytes() {
#ifdef __x86_64__
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  // The kernel has enabled XSAVE; otherwise the sub-leaf tells the size after a reset.
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) return std::nullopt;
  if (__get_cpuid_count(0xd, 0, &eax, &ebx, &ecx, &edx) == 0 || ebx == 0) return std::nullopt;
  return ebx;
#else
  return std::nullopt;
#endif
}

}  // namespace kfdcp::cpu
