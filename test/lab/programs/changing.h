// VRAM of which a part never stays as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dma.h"

namespace lab {

/// One buffer of VRAM with contents that compress well. Every step writes its first bytes anew, so
/// a checkpoint finds that much changed since an earlier one, and the rest as it was.
class ChangingBuffer {
 public:
  /// Fills `bytes`, of which each step changes the first `changes`. Throws Error{gpu}.
  ChangingBuffer(const Runtime& runtime, Dma& dma, std::uint64_t seed, std::size_t bytes,
                 std::size_t changes);

  /// Throws Error{gpu} when a copy fails.
  void step();
  /// Reads back and compares every byte. Throws what Dma::verify throws.
  void verify();

 private:
  std::span<std::byte> changed() const;
  std::span<std::byte> constant() const;
  std::uint32_t generation_pattern() const;

  Dma& dma_;
  const Pattern pattern_;
  PoolBuffer buffer_;
  const std::size_t changes_;
  std::uint32_t generation_ = 0;
};

}  // namespace lab
