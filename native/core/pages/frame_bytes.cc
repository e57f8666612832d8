#include "core/pages/frame_bytes.h"

#include <cstring>

namespace kfdcp {

bool all_zero(std::span<const std::byte> bytes) {
  // Comparing the bytes with themselves, shifted by one, is a memcmp at full speed.
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace kfdcp
