// Buffers for transfers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/transfer/transfer.h"
#include "test/os/memory_file.h"

namespace kfdcp::test {

/// Buffers with ids 10, 11, ...
inline std::vector<ContentBuffer> buffers_of(const std::vector<std::vector<std::byte>>& contents) {
  std::vector<ContentBuffer> buffers;
  for (const auto& content : contents) {
    const auto id = static_cast<std::uint32_t>(10 + buffers.size());
    buffers.push_back({id, content.size(), memory_file(content)});
  }
  return buffers;
}

}  // namespace kfdcp::test
