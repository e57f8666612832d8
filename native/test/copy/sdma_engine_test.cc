#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/os/error.h"
#include "test/copy/fake_amdgpu.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

constexpr std::size_t kSlotBytes = 1u << 20;
constexpr std::size_t kSlotPages = kSlotBytes / 4096;

struct Fixture {
  explicit Fixture(unsigned rings = 2)
      : gpu(rings), engine(make_sdma_engine(gpu.fd(), {.slots = 6, .slot_bytes = kSlotBytes})) {
    for (unsigned i = 0; i < 2; ++i) {
      contents.push_back(noise(4 * kSlotBytes, i));
      files.push_back(memory_file(contents[i]));
      buffers.push_back(engine->import(files[i].get(), contents[i].size(), 0));
    }
  }
  CopySegment segment(std::size_t buffer, std::uint64_t offset, std::size_t slot,
                      std::size_t slot_offset = 0, std::size_t bytes = kSlotBytes) {
    return {buffers[buffer].get(), offset, slot, slot_offset, bytes};
  }
  void read(const std::vector<CopySegment>& segments) { engine->start_read(segments); }
  bool holds(const CopySegment& segment) {
    const auto& content = contents[segment.buffer == buffers[1].get() ? 1 : 0];
    return std::ranges::equal(
        engine->slot(segment.slot).subspan(segment.slot_offset, segment.bytes),
        std::span(content).subspan(segment.offset, segment.bytes));
  }

  FakeAmdgpu gpu;
  std::unique_ptr<CopyEngine> engine;
  std::vector<std::vector<std::byte>> contents;
  std::vector<UniqueFd> files;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
};

}  // namespace

TEST_CASE("sdma engine: a copy of several slots and buffers, complete in all of them") {
  Fixture one;
  const std::vector<CopySegment> segments = {one.segment(0, 4096, 4), one.segment(1, 0, 1, 0, 8192),
                                             one.segment(0, 2 * kSlotBytes, 1, 12288, 4096),
                                             one.segment(1, kSlotBytes, 5)};
  one.read(segments);
  CHECK(code_of([&] { one.read({one.segment(0, 0, 5)}); }) == ErrorCode::gpu);  // busy
  one.engine->wait(1);
  for (const CopySegment& segment : segments) CHECK(one.holds(segment));
  one.read({one.segment(0, 0, 5)});
  one.engine->wait(5);
  CHECK(one.holds(one.segment(0, 0, 5)));
}

TEST_CASE("sdma engine: what is written arrives") {
  Fixture one;
  const auto fresh = noise(kSlotBytes, 9);
  std::ranges::copy(fresh, one.engine->slot(2).begin());
  const CopySegment to = one.segment(1, 8192, 2);
  one.engine->start_write({&to, 1});
  one.engine->wait(2);
  auto expected = one.contents[1];
  std::ranges::copy(fresh, expected.begin() + 8192);
  CHECK(content_of(one.files[1].get()) == expected);
}

TEST_CASE("sdma engine: a submission lists what it touches, and no other memory") {
  Fixture one;
  one.read({one.segment(0, 0, 0)});
  one.read({one.segment(0, 0, 1), one.segment(0, 0, 2), one.segment(1, 0, 3)});
  for (const std::size_t slot : {0, 1}) one.engine->wait(slot);
  REQUIRE(one.gpu.submissions.size() == 2);
  CHECK(one.gpu.submissions[0].user_pages == kSlotPages);
  CHECK(one.gpu.submissions[0].bos.size() == 3);  // buffer, slot, commands
  CHECK(one.gpu.submissions[1].user_pages == 3 * kSlotPages);
  CHECK(one.gpu.submissions[1].bos.size() == 6);
  CHECK(one.gpu.bo_lists == 0);
}

TEST_CASE("sdma engine: a copy between buffers lists no staging memory") {
  Fixture one;
  const CopyMove move{one.buffers[0].get(), 4096, one.buffers[1].get(), 8192, kSlotBytes};
  one.engine->start_move({&move, 1}, 3);
  one.engine->wait(3);
  CHECK(one.gpu.submissions[0].user_pages == 0);
  CHECK(one.gpu.submissions[0].bos.size() == 3);  // two buffers, commands
  const auto moved = content_of(one.files[1].get());
  CHECK(std::ranges::equal(std::span(moved).subspan(8192, kSlotBytes),
                           std::span(one.contents[0]).subspan(4096, kSlotBytes)));
}

TEST_CASE("sdma engine: submissions take the DMA rings in turn, of those that there are") {
  for (const unsigned rings : {1u, 2u}) {
    CAPTURE(rings);
    Fixture one(rings);
    for (std::size_t slot = 0; slot < 6; ++slot) one.read({one.segment(0, 4096 * slot, slot)});
    for (std::size_t slot = 6; slot-- > 0;) one.engine->wait(slot);
    for (std::size_t slot = 0; slot < 6; ++slot) {
      CHECK(one.gpu.submissions[slot].ring == slot % rings);
      CHECK(one.holds(one.segment(0, 4096 * slot, slot)));
    }
  }
}

TEST_CASE("sdma engine: a buffer that goes waits for its copies on both rings") {
  Fixture one;
  one.read({one.segment(0, 0, 0)});
  one.read({one.segment(0, 4096, 1)});
  const CopySegment read[] = {one.segment(1, 0, 0), one.segment(1, 4096, 1)};
  one.buffers[0].reset();
  for (const auto& submission : one.gpu.submissions) CHECK(submission.done);
  CHECK(std::ranges::equal(one.engine->slot(1),
                           std::span(one.contents[0]).subspan(4096, kSlotBytes)));
  one.engine->wait(0);
  one.engine->wait(1);
  one.engine->start_read(read);
  one.engine->wait(0);
  CHECK(one.holds(read[1]));
}

TEST_CASE("sdma engine: a copy that fails is told, and its slots can be used again") {
  Fixture one;
  one.gpu.fails = 0;
  one.read({one.segment(0, 0, 0), one.segment(0, 0, 1)});
  one.read({one.segment(1, 0, 2)});
  CHECK(code_of([&] { one.engine->wait(0); }) == ErrorCode::gpu);
  one.engine->wait(2);
  CHECK(one.holds(one.segment(1, 0, 2)));
  one.read({one.segment(1, 4096, 1)});
  one.engine->wait(1);
  CHECK(one.holds(one.segment(1, 4096, 1)));
}

TEST_CASE("sdma engine: nothing is left in the kernel") {
  Fixture one;
  one.read({one.segment(0, 0, 0), one.segment(1, 0, 1)});
  one.buffers.clear();
  one.engine.reset();
  CHECK(one.gpu.live() == 0);
}
