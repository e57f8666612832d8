// Everything that parses hostile bytes, for fuzzers: libFuzzer (test/fuzz/libfuzzer.cc) and a short
// run of the native tests (test/fuzz/fuzz_test.cc).
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/os/error.h"
#include "test/os/memory_file.h"

namespace kfdcp::test {

struct FuzzTarget {
  std::string name;
  /// Parses `input`, and uses what was accepted. Throws std::logic_error when a promise of the
  /// parser is broken; an Error that says so of the input is its business.
  void (*run)(std::span<const std::byte> input);
  /// The same input with checksums that are right. Null: there are none.
  Bytes (*sealed)(Bytes input);
  /// Sound inputs to begin with.
  std::vector<Bytes> (*seeds)();
};

std::vector<FuzzTarget> state_targets();
std::vector<FuzzTarget> pages_targets();
std::vector<FuzzTarget> text_targets();
std::vector<FuzzTarget> contents_targets();

inline std::vector<FuzzTarget> all_targets() {
  std::vector<FuzzTarget> all;
  for (auto targets : {state_targets(), pages_targets(), text_targets(), contents_targets()}) {
    all.insert(all.end(), targets.begin(), targets.end());
  }
  return all;
}

/// Runs `parse`. Refusals of the input are fine; other errors are not.
template <typename Parse>
void refusing(Parse&& parse) {
  try {
    parse();
  } catch (const Error& error) {
    if (error.code != ErrorCode::corrupt && error.code != ErrorCode::unsupported) {
      throw std::logic_error(std::string("not a refusal: ") + error.what());
    }
  }
}

inline void promise(bool kept, const char* what) {
  if (!kept) throw std::logic_error(std::string("broken: ") + what);
}

}  // namespace kfdcp::test
