#include "changing.h"

namespace lab {
namespace {

/// Words that are the same one after the other: compression makes an eighth of them.
constexpr std::size_t kRepeats = 8;

}  // namespace

ChangingBuffer::ChangingBuffer(const Runtime& runtime, Dma& dma, std::uint64_t seed,
                               std::size_t bytes, std::size_t changes)
    : dma_(dma),
      pattern_(seed, kRepeats),
      buffer_(runtime, runtime.vram(), bytes),
      changes_(changes) {
  dma_.fill(constant(), pattern_, kChangingRest);
  dma_.fill(changed(), pattern_, generation_pattern());
}

std::span<std::byte> ChangingBuffer::changed() const { return buffer_.bytes().first(changes_); }

std::span<std::byte> ChangingBuffer::constant() const { return buffer_.bytes().subspan(changes_); }

std::uint32_t ChangingBuffer::generation_pattern() const { return kChanging + generation_; }

void ChangingBuffer::step() {
  if (changes_ == 0) return;
  ++generation_;
  dma_.fill(changed(), pattern_, generation_pattern());
}

void ChangingBuffer::verify() {
  dma_.verify(changed(), pattern_, generation_pattern());
  dma_.verify(constant(), pattern_, kChangingRest);
}

}  // namespace lab
