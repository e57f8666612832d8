#include "counter.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/os/error.h"

namespace lab {
namespace {

constexpr std::size_t kBlockBytes = 4096;

}  // namespace

Counter::Counter(const Runtime& runtime, Dma& dma, const Pattern& pattern)
    : dma_(dma), pattern_(pattern), block_(runtime, runtime.vram(), kBlockBytes) {
  write();
}

void Counter::write() {
  pattern_.write(kCounterBlock, value_ * kBlockBytes, dma_.staging(kBlockBytes));
  std::memcpy(dma_.staging(kBlockBytes).data(), &value_, sizeof value_);
  dma_.upload(block_.bytes().data(), kBlockBytes);
}

void Counter::step() {
  const auto block = dma_.staging(kBlockBytes);
  std::ranges::fill(block, std::byte{0xee});
  dma_.download(block_.bytes().data(), kBlockBytes);
  std::uint64_t stored = 0;
  std::memcpy(&stored, block.data(), sizeof stored);
  if (stored != value_) {
    throw kfdcp::Error(kfdcp::ErrorCode::corrupt, "counter: VRAM holds " + std::to_string(stored) +
                                                      ", expected " + std::to_string(value_));
  }
  pattern_.check("counter block", kCounterBlock, value_ * kBlockBytes + sizeof stored,
                 block.subspan(sizeof stored));
  ++value_;
  write();
}

}  // namespace lab
