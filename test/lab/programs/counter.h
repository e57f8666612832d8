// Work that continues while nobody asks for anything.
#pragma once

#include <cstdint>

#include "dma.h"

namespace lab {

/// A counter that lives in VRAM: every step reads the block back by SDMA, checks all of it, and
/// writes the block of the next value. The whole block changes with every step, so old or torn
/// contents are noticed.
class Counter {
 public:
  Counter(const Runtime& runtime, Dma& dma, const Pattern& pattern);

  /// One step. Throws Error{corrupt} when VRAM does not hold the last value, Error{gpu} when a copy
  /// fails.
  void step();
  /// Steps completed.
  std::uint64_t value() const { return value_; }

 private:
  void write();

  Dma& dma_;
  const Pattern& pattern_;
  PoolBuffer block_;
  std::uint64_t value_ = 0;
};

}  // namespace lab
