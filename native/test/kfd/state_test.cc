#include "core/kfd/state.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>
#include <utility>

#include "core/kfd/state_file.h"
#include "test/kfd/state_damage.h"
#include "test/kfd/state_fuzz.h"
#include "test/kfd/state_sample.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/pages/image_fixture.h"

namespace kfdcp::test {
namespace {

std::optional<ErrorCode> decode_code(const Bytes& file) {
  return code_of([&] { decode_state(file); });
}

template <typename T>
Bytes patched(std::size_t offset, T value) {
  return forged_state(encode_state(sample_state()), offset, value);
}

TEST_CASE("state: round trip, with descriptors cleared") {
  const ProcessState in = sample_state();
  const ProcessState out = decode_state(encode_state(in));
  CHECK(out.ordinal == in.ordinal);
  CHECK(out.ns_pid == in.ns_pid);
  CHECK(out.num_objects == in.num_objects);
  CHECK(out.priv == in.priv);
  REQUIRE(out.devices.size() == in.devices.size());
  for (std::size_t i = 0; i < in.devices.size(); ++i) {
    kfd_criu_device_bucket expected = in.devices[i];
    expected.drm_fd = KFD_INVALID_FD;
    CHECK(std::memcmp(&out.devices[i], &expected, sizeof(expected)) == 0);
  }
  REQUIRE(out.bos.size() == in.bos.size());
  for (std::size_t i = 0; i < in.bos.size(); ++i) {
    kfd_criu_bo_bucket expected = in.bos[i];
    expected.dmabuf_fd = KFD_INVALID_FD;
    CHECK(std::memcmp(&out.bos[i], &expected, sizeof(expected)) == 0);
  }
  REQUIRE(out.vmas.size() == in.vmas.size());
  CHECK(std::memcmp(out.vmas.data(), in.vmas.data(), in.vmas.size() * sizeof(VmaRecord)) == 0);
  CHECK(encode_state(out) == encode_state(in));
}

TEST_CASE("state: a render mapping keeps its GPU") {
  const ProcessState out = decode_state(encode_state(two_gpu_state()));
  CHECK(out.vmas[0].gpu_id == 0);
  CHECK(out.vmas[1].gpu_id == 0x1234);
  CHECK(out.vmas[2].gpu_id == 0xabcd);
}

TEST_CASE("state: a process without objects") {
  const ProcessState out = decode_state(encode_state({}));
  CHECK(out.devices.empty());
  CHECK(out.bos.empty());
  CHECK(out.vmas.empty());
  CHECK(out.priv.empty());
}

TEST_CASE("state: every changed bit and every truncation is an error") {
  check_damage_is_found(encode_state(sample_state()), decode_state);
}

TEST_CASE("state: hostile headers with a right checksum") {
  CHECK(decode_code(patched<std::uint32_t>(8, 2)) == ErrorCode::unsupported);   // version
  CHECK(decode_code(patched<std::uint64_t>(16, 1)) == ErrorCode::unsupported);  // required
  CHECK_NOTHROW(decode_state(patched<std::uint64_t>(24, 1)));                   // optional
  CHECK(decode_code(patched<std::uint32_t>(84, 1)) == ErrorCode::corrupt);      // reserved
  CHECK(decode_code(patched<std::uint32_t>(12, 64)) == ErrorCode::corrupt);     // header size
  for (const std::size_t count : {52u, 56u, 60u, 72u, 76u, 80u}) {
    CHECK(decode_code(patched<std::uint32_t>(count, 0xffffffff)) == ErrorCode::corrupt);
    CHECK(decode_code(patched<std::uint32_t>(count, 0)) == ErrorCode::corrupt);
  }
  for (const std::size_t size : {32u, 64u}) {
    CHECK(decode_code(patched<std::uint64_t>(size, ~std::uint64_t{0})) == ErrorCode::corrupt);
    CHECK(decode_code(patched<std::uint64_t>(size, ~std::uint64_t{0} - 600)) == ErrorCode::corrupt);
  }
}

TEST_CASE("state: private data whose size only wraps around to the length of the file") {
  // Four BOs more than there are, and as many bytes of private data less than nothing.
  constexpr std::uint32_t kBos = 4;
  Bytes file = encode_state({});
  const std::uint64_t priv = 0 - std::uint64_t{kBos} * sizeof(kfd_criu_bo_bucket);
  std::memcpy(file.data() + 56, &kBos, sizeof kBos);
  std::memcpy(file.data() + 64, &priv, sizeof priv);
  file = resealed_state(std::move(file));
  CHECK(decode_code(file) == ErrorCode::corrupt);
  CHECK(code_of([&] { check_state_head(std::span(file).first(128), file.size()); }) ==
        ErrorCode::corrupt);
}

TEST_CASE("state: more records than any process has, and a BO larger than any memory") {
  const auto code_with = [](std::size_t bos, std::size_t devices) {
    Bytes file(128 + 48 * bos + 16 * devices + 8);
    const Bytes empty = encode_state({});
    std::copy_n(empty.begin(), 128, file.begin());
    const std::uint64_t bytes = file.size();
    const auto counts = {static_cast<std::uint32_t>(devices), static_cast<std::uint32_t>(bos)};
    std::memcpy(file.data() + 32, &bytes, sizeof bytes);
    std::memcpy(file.data() + 52, counts.begin(), 8);
    for (std::size_t i = 0; i < devices; ++i) {
      std::memset(file.data() + 128 + 16 * i + 8, 0xff, 4);
    }
    for (std::size_t i = 0; i < bos; ++i) {
      std::memset(file.data() + 128 + 16 * devices + 48 * i + 40, 0xff, 4);
    }
    return decode_code(resealed_state(std::move(file)));
  };
  CHECK(code_with(kMaxStateRecords, kMaxStateDevices) == std::nullopt);
  CHECK(code_with(kMaxStateRecords + 1, 0) == ErrorCode::corrupt);
  CHECK(code_with(0, kMaxStateDevices + 1) == ErrorCode::corrupt);
  ProcessState state;
  state.bos.resize(1);
  state.bos[0].size = kMaxBoBytes;
  CHECK(decode_code(encode_state(state)) == std::nullopt);
  state.bos[0].size = kMaxBoBytes + 1;
  CHECK(decode_code(encode_state(state)) == ErrorCode::corrupt);
  state.devices.resize(kMaxStateDevices + 1);
  CHECK(code_of([&] { encode_state(state); }) == ErrorCode::unsupported);
}

TEST_CASE("state: descriptors and impossible mappings are refused") {
  const std::size_t devices = 128, bos = devices + 2 * 16, vmas = bos + 3 * 48;
  CHECK(decode_code(patched<std::uint32_t>(devices + 8, 5)) == ErrorCode::corrupt);
  CHECK(decode_code(patched<std::uint32_t>(bos + 40, 5)) == ErrorCode::corrupt);
  CHECK(decode_code(patched<std::uint64_t>(vmas, 0x7f0000000001)) == ErrorCode::corrupt);
  CHECK(decode_code(patched<std::uint64_t>(vmas + 8, 0x7f0000000000)) == ErrorCode::corrupt);
  CHECK(decode_code(patched<std::uint64_t>(vmas + 8, 0x7fff00000000)) == ErrorCode::corrupt);
  CHECK(decode_code(patched<std::uint32_t>(vmas + 24, 2)) == ErrorCode::corrupt);
  CHECK(decode_code(patched<std::uint32_t>(vmas + 28, 2)) == ErrorCode::corrupt);

  ProcessState wrong = sample_state();
  std::swap(wrong.vmas[0], wrong.vmas[1]);
  CHECK(code_of([&] { encode_state(wrong); }) == ErrorCode::protocol);
}

TEST_CASE("golden v1: state files are read, and made again byte for byte") {
  for (const auto& [name, state] : golden_states()) {
    CAPTURE(name);
    const Bytes file = fixture(name);
    CHECK(encode_state(state) == file);
    CHECK(encode_state(decode_state(file)) == file);
    CHECK(decode_state(file).ns_pid == state.ns_pid);
  }
}

TEST_CASE("fuzz: state files") {
  fuzz_state_files(encode_state(sample_state()), decode_state, encode_state);
}

}  // namespace
}  // namespace kfdcp::test
