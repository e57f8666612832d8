// Mutants of image files, for fuzzers. KFD_FUZZ_ITERATIONS says how many mutants of each seed file
// to try, KFD_FUZZ_SEED repeats a run. Worth most with the sanitizers.
#pragma once

#include <cstdint>

#include "test/os/memory_file.h"
#include "test/os/number_from_env.h"
#include "test/os/random_bytes.h"

namespace kfdcp::test {

struct FuzzRun {
  std::uint64_t seed = number_from_env("KFD_FUZZ_SEED", 20240501);
  std::uint64_t iterations = number_from_env("KFD_FUZZ_ITERATIONS", 1500);
};

/// `file` after one to four changes of bits, fields, parts or its length.
Bytes mutant_of(Bytes file, Random& random);

}  // namespace kfdcp::test
