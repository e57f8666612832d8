// New GPU work after a restore.
#pragma once

#include <chrono>
#include <cstdint>

#include "dma.h"

namespace lab {

/// Allocates buffers of several sizes, fills and verifies them by SDMA, frees some and allocates
/// again, then creates an AQL queue and runs a packet on it. Everything is freed again. Returns the
/// bytes it verified. Throws what the steps throw.
std::uint64_t churn(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                    std::chrono::milliseconds limit);

}  // namespace lab
