#include "core/pages/byte_planes.h"

namespace kfdcp {

// Compilers make vector code of plain loops over pairs.

void split_planes(std::span<const std::byte> content, std::span<std::byte> planes) {
  const std::size_t pairs = content.size() / 2;
  const std::byte* const in = content.data();
  std::byte* const low = planes.data();
  std::byte* const high = low + (content.size() - pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    low[i] = in[2 * i];
    high[i] = in[2 * i + 1];
  }
  if (content.size() % 2 != 0) low[pairs] = in[2 * pairs];
}

void join_planes(std::span<const std::byte> planes, std::span<std::byte> content) {
  const std::size_t pairs = content.size() / 2;
  const std::byte* const low = planes.data();
  const std::byte* const high = low + (content.size() - pairs);
  std::byte* const out = content.data();
  for (std::size_t i = 0; i < pairs; ++i) {
    out[2 * i] = low[i];
    out[2 * i + 1] = high[i];
  }
  if (content.size() % 2 != 0) out[2 * pairs] = low[pairs];
}

}  // namespace kfdcp
