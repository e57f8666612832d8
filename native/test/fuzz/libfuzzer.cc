// A program for libFuzzer. KFD_FUZZ_TARGET names the parser. `kfd_fuzz --seeds FOLDER` writes its
// sound inputs, `kfd_fuzz --list` prints the names of all parsers.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "test/fuzz/targets.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace kfdcp::test {
namespace {

const FuzzTarget& target() {
  static const FuzzTarget chosen = [] {
    const char* name = std::getenv("KFD_FUZZ_TARGET");
    for (const FuzzTarget& one : all_targets()) {
      if (name != nullptr && one.name == name) return one;
    }
    std::fputs("kfd_fuzz: KFD_FUZZ_TARGET names no parser\n", stderr);
    std::exit(2);
  }();
  return chosen;
}

void write_seeds(const std::string& folder) {
  std::size_t number = 0;
  for (const Bytes& seed : target().seeds()) {
    std::ofstream file(folder + "/seed-" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
  }
}

}  // namespace
}  // namespace kfdcp::test

using namespace kfdcp::test;

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerInitialize(int* argc,
                                                                           char*** argv) {
  const std::string_view first = *argc > 1 ? (*argv)[1] : "";
  if (first == "--list") {
    for (const FuzzTarget& one : all_targets()) std::puts(one.name.c_str());
    std::exit(0);
  }
  if (first == "--seeds" && *argc > 2) {
    write_seeds((*argv)[2]);
    std::exit(0);
  }
  target();
  // Helpers of the tests assert, too.
  static doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  context.setAssertHandler([](const doctest::AssertData& failed) {
    if (failed.m_failed) throw std::logic_error(failed.m_expr);
  });
  return 0;
}

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  target().run(std::as_bytes(std::span(data, size)));
  return 0;
}

/// Most inputs get right checksums: behind them lies what else can be wrong.
extern "C" __attribute__((visibility("default"))) std::size_t LLVMFuzzerCustomMutator(
    std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (target().sealed == nullptr || seed % 4 == 0) return size;
  const auto bytes = std::as_bytes(std::span(data, size));
  const Bytes sealed = target().sealed(Bytes(bytes.begin(), bytes.end()));
  std::memcpy(data, sealed.data(), size);
  return size;
}
