#include "core/kfd/blob_bos.h"

#include <doctest/doctest.h>

#include <cstring>

#include "test/os/error_code.h"
#include "test/os/random_bytes.h"

namespace kfdcp::test {
namespace {

/// Two GPUs, three BOs: number 4 on both GPUs, 0 on the second alone, 1 mapped nowhere.
ProcessState sample() {
  ProcessState state;
  state.devices = {{.user_gpu_id = 7, .actual_gpu_id = 70, .drm_fd = 0, .pad = 0},
                   {.user_gpu_id = 9, .actual_gpu_id = 90, .drm_fd = 0, .pad = 0}};
  state.bos.resize(3);
  for (auto& bo : state.bos) bo.gpu_id = 7;
  state.bos[1].gpu_id = 9;
  state.priv.resize(8 + 2 * 8 + 3 * 272 + 100);
  return state;
}

void put(ProcessState& state, std::size_t bo, std::size_t offset, std::uint32_t value) {
  std::memcpy(state.priv.data() + 24 + bo * 272 + offset, &value, sizeof value);
}

ProcessState filled() {
  ProcessState state = sample();
  put(state, 0, 8, 4);
  put(state, 0, 12, 9);
  put(state, 0, 16, 7);
  put(state, 1, 12, 9);
  put(state, 2, 8, 1);
  return state;
}

bool refused(const ProcessState& state) {
  return code_of([&] { blob_bos(state); }) == ErrorCode::unsupported;
}

}  // namespace

TEST_CASE("blob: numbers and mappings of each BO") {
  const auto bos = blob_bos(filled());
  REQUIRE(bos.size() == 3);
  CHECK(bos[0].number == 4);
  CHECK(bos[0].gpus == std::vector<std::uint32_t>{9, 7});
  CHECK(bos[1].number == 0);
  CHECK(bos[1].gpus == std::vector<std::uint32_t>{9});
  CHECK(bos[2].number == 1);
  CHECK(bos[2].gpus.empty());
}

TEST_CASE("blob: what cannot be of this layout is refused") {
  ProcessState state = filled();
  SUBCASE("too short") { state.priv.resize(24 + 3 * 272 - 1); }
  SUBCASE("empty") { state.priv.clear(); }
  SUBCASE("a number beyond those of an IDR") { put(state, 0, 8, 0x80000000); }
  SUBCASE("one number twice on a GPU") { put(state, 2, 8, 4); }
  SUBCASE("a mapping on no GPU of the process") { put(state, 1, 16, 70); }
  SUBCASE("more mappings than GPUs") {
    put(state, 1, 16, 7);
    put(state, 1, 20, 7);
  }
  CHECK(refused(state));
}

TEST_CASE("blob: random bytes are read or refused") {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    ProcessState state = sample();
    state.priv = noise(seed % 1100, seed);
    if (!refused(state)) CHECK(blob_bos(state).size() == 3);
  }
}

}  // namespace kfdcp::test
