// A short run of every fuzzer, the same each time. libFuzzer runs them for longer: npm run fuzz.
#include <doctest/doctest.h>

#include "test/fuzz/targets.h"
#include "test/os/number_from_env.h"
#include "test/pages/mutation.h"

namespace kfdcp::test {

TEST_CASE("fuzz: every parser of hostile bytes keeps its promises") {
  const std::uint64_t rounds = number_from_env("KFD_FUZZ_ROUNDS", 120);
  for (const FuzzTarget& target : all_targets()) {
    CAPTURE(target.name);
    const std::vector<Bytes> seeds = target.seeds();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      CAPTURE(round);
      Random random(20261125 + round);
      Bytes input = seeds[random.below(seeds.size())];
      // The first rounds are the seeds themselves.
      if (round >= seeds.size()) input = mutant_of(std::move(input), random);
      if (target.sealed != nullptr && random.below(4) != 0) input = target.sealed(std::move(input));
      CHECK_NOTHROW(target.run(input));
    }
  }
}

}  // namespace kfdcp::test
