#include "core/drm/render_state.h"

#include <doctest/doctest.h>

#include "core/kfd/state_file.h"
#include "test/drm/render_sample.h"
#include "test/kfd/state_damage.h"
#include "test/kfd/state_fuzz.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/pages/image_fixture.h"

namespace kfdcp::test {
namespace {

std::optional<ErrorCode> decode_code(const Bytes& file) {
  return code_of([&] { decode_render_state(file); });
}

template <typename T>
Bytes patched(std::size_t offset, T value) {
  return forged_state(encode_render_state(sample_render_state()), offset, value);
}

// Where the sections of the sample begin.
constexpr std::size_t kBos = 128, kMappings = kBos + 3 * 48, kMetadata = kMappings + 3 * 40,
                      kContexts = kMetadata + 280, kRings = kContexts + 3 * 4,
                      kLists = kRings + 3 * 24;

TEST_CASE("render state: round trip") {
  const RenderState in = sample_render_state();
  const Bytes file = encode_render_state(in);
  CHECK(file.size() == kLists + 2 * 4 + 8);
  const RenderState out = decode_render_state(file);
  CHECK(out.ordinal == 5);
  CHECK(out.bos.size() == 3);
  CHECK(out.bos[1].size == 0x200000);
  CHECK(out.bos[1].original == 17);
  CHECK(out.mappings[1].offset == 0x8000);
  CHECK(out.metadata[0].data[1] == 0x12345678);
  CHECK(out.contexts == in.contexts);
  CHECK(out.rings[2].submissions == 65536);
  CHECK(out.bo_lists == in.bo_lists);
  CHECK(encode_render_state(out) == file);
  CHECK(!out.empty());
}

TEST_CASE("render state: a file that holds nothing") {
  CHECK(decode_render_state(encode_render_state({})).empty());
}

TEST_CASE("render state: every changed bit and every truncation is an error") {
  check_damage_is_found(encode_render_state(sample_render_state()), decode_render_state);
}

TEST_CASE("render state: hostile headers with a right checksum") {
  CHECK(decode_code(patched<std::uint32_t>(8, 2)) == ErrorCode::unsupported);   // version
  CHECK(decode_code(patched<std::uint64_t>(16, 1)) == ErrorCode::unsupported);  // required
  CHECK_NOTHROW(decode_render_state(patched<std::uint64_t>(24, 1)));            // optional
  CHECK(decode_code(patched<std::uint32_t>(92, 1)) == ErrorCode::corrupt);      // reserved
  CHECK(decode_code(patched<std::uint32_t>(12, 64)) == ErrorCode::corrupt);     // header size
  for (std::size_t count = 44; count < 92; count += 4) {
    CHECK(decode_code(patched<std::uint32_t>(count, 0xffffffff)) == ErrorCode::corrupt);
    CHECK(decode_code(patched<std::uint32_t>(count, 0)) == ErrorCode::corrupt);
  }
  CHECK(decode_code(patched<std::uint64_t>(32, ~std::uint64_t{0})) == ErrorCode::corrupt);
}

TEST_CASE("render state: hostile records with a right checksum") {
  const auto refuses32 = [](std::size_t offset, std::uint32_t value) {
    CAPTURE(offset);
    CHECK(decode_code(patched(offset, value)) == ErrorCode::corrupt);
  };
  const auto refuses64 = [](std::size_t offset, std::uint64_t value) {
    CAPTURE(offset);
    CHECK(decode_code(patched(offset, value)) == ErrorCode::corrupt);
  };
  refuses32(kBos, 0);                    // handle
  refuses32(kBos + 48, 2);               // twice
  refuses32(kBos + 2 * 48, 0x7fffffff);  // no handle can be that
  refuses64(kBos + 8, 0);                // size
  refuses64(kBos + 8, kMaxBoBytes + 4096);
  refuses64(kBos + 8, 0x10001);           // not of pages
  refuses64(kBos + 8, 0xf000);            // a mapping sticks out
  refuses64(kBos + 40, 1);                // offset
  refuses32(kMappings, 3);                // of no BO
  refuses32(kMappings + 4, 1);            // reserved
  refuses64(kMappings + 8, 0x200010000);  // overlap
  refuses64(kMappings + 8, 0x7f0000000000);
  refuses64(kMappings + 8, 0x200000001);
  refuses64(kMappings + 8, ~std::uint64_t{0} << 12);
  refuses64(kMappings + 16, 0);
  refuses64(kMappings + 16, ~std::uint64_t{0} << 12);
  refuses64(kMappings + 24, ~std::uint64_t{0} << 12);
  refuses64(kMappings + 32, std::uint64_t{1} << 32);
  refuses32(kMetadata, 3);        // of no BO
  refuses32(kMetadata + 4, 257);  // bytes
  refuses32(kContexts, 0);
  refuses32(kContexts + 4, 1);  // twice
  refuses32(kContexts + 8, 4096);
  refuses32(kRings, 2);            // no such context
  refuses32(kRings + 2 * 24, 6);   // none behind the last one, either
  refuses32(kRings + 24 + 12, 0);  // twice
  refuses64(kRings + 16, 0);
  refuses64(kRings + 16, 65537);
  refuses32(kLists, 7);  // twice
  refuses32(kLists + 4, 65537);
}

TEST_CASE("render state: what cannot be read back is not written") {
  RenderState wrong = sample_render_state();
  std::swap(wrong.bos[0], wrong.bos[1]);
  CHECK(code_of([&] { encode_render_state(wrong); }) == ErrorCode::protocol);
}

TEST_CASE("golden v1: render state files are read, and made again byte for byte") {
  for (const auto& [name, state] : golden_render_states()) {
    CAPTURE(name);
    const Bytes file = fixture(name);
    CHECK(encode_render_state(state) == file);
    CHECK(encode_render_state(decode_render_state(file)) == file);
    CHECK(decode_render_state(file).ordinal == state.ordinal);
  }
}

TEST_CASE("fuzz: render state files") {
  fuzz_state_files(encode_render_state(sample_render_state()), decode_render_state,
                   encode_render_state);
}

}  // namespace
}  // namespace kfdcp::test
