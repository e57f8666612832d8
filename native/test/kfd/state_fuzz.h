// Mutation fuzzing of the decoders of state files: test/pages/mutation.h.
#pragma once

#include <doctest/doctest.h>

#include <utility>

#include "test/kfd/state_damage.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/mutation.h"
#include "test/pages/pages_forge.h"

namespace kfdcp::test {

/// Mutants of one state file. What is accepted is understood whole: it encodes to the same bytes,
/// but for features of later versions that were read past.
template <typename Decode, typename Encode>
void fuzz_state_files(const Bytes& seed, Decode&& decode, Encode&& encode) {
  const FuzzRun run;
  std::uint64_t accepted = 0;
  for (std::uint64_t i = 0; i < 10 * run.iterations; ++i) {
    CAPTURE(run.seed);
    CAPTURE(i);
    Random random(run.seed + i);
    Bytes mutant = mutant_of(seed, random);
    const bool forge = random.below(4) != 0;
    if (forge) mutant = resealed_state(std::move(mutant));
    try {
      const auto state = decode(mutant);
      if (block_at<std::uint64_t>(mutant, 24) == 0) REQUIRE(encode(state) == mutant);
      REQUIRE((forge || mutant == seed));
      ++accepted;
    } catch (const Error& error) {
      REQUIRE(error.code != ErrorCode::io);
      REQUIRE(error.code != ErrorCode::protocol);
    }
  }
  if (run.iterations >= 100) CHECK(accepted > 0);
}

}  // namespace kfdcp::test
