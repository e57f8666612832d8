#include "core/transfer/snapshot.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <stop_token>
#include <vector>

#include "core/os/error.h"
#include "core/pages/pages.h"
#include "test/copy/fake_engine.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/open_descriptors.h"
#include "test/os/random_bytes.h"
#include "test/transfer/content_buffers.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

constexpr std::size_t kFrame = 1u << 20;
constexpr EngineOptions kTurns{.slots = 3, .slot_bytes = 4096};
constexpr EngineOptions kRing{.slots = 3, .slot_bytes = kFrame};
constexpr TransferOptions kWork{.workers = 2};
constexpr std::uint64_t kRoom = 1ull << 30;

/// One page, an odd size, several copies' worth, more than one copy, and many small ones.
std::vector<std::vector<std::byte>> sample() {
  std::vector<std::vector<std::byte>> contents = {
      noise(4096, 1), noise(5000, 2), noise(3 * kFrame, 3), noise(kMaxMoveBytes + 3 * 4096, 4)};
  for (unsigned i = 0; i < 2 * kMaxSegments; ++i) contents.push_back(noise(4096, 5 + i));
  return contents;
}

std::vector<ContentBuffer> of_sizes(std::initializer_list<std::uint64_t> sizes) {
  std::vector<ContentBuffer> buffers;
  for (const std::uint64_t size : sizes) buffers.push_back({7, size, {}});
  return buffers;
}

void overwrite(const std::vector<ContentBuffer>& buffers) {
  for (const ContentBuffer& buffer : buffers) {
    const std::vector<std::byte> rubbish(buffer.size, std::byte{0x5a});
    REQUIRE(::pwrite(buffer.dmabuf.get(), rubbish.data(), rubbish.size(), 0) ==
            static_cast<ssize_t>(rubbish.size()));
  }
}

/// Drains the copies with the CPU, and reads back what the pages file has.
void check_drained(const Snapshot& snapshot, const std::vector<std::vector<std::byte>>& contents) {
  std::vector<ContentBuffer> copies;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const auto [memory, offset] = snapshot.places[i];
    UniqueFd fd(::fcntl(snapshot.memory[memory].get(), F_DUPFD_CLOEXEC, 0));
    copies.push_back({static_cast<std::uint32_t>(i), contents[i].size(), std::move(fd), offset});
  }
  const UniqueFd file = memory_file();
  TransferProgress progress;
  PagesWriter out(file.get(), {.frame_bytes = kFrame});
  drain(*make_cpu_engine(kRing), copies, out, kWork, {}, progress);
  out.finish();
  std::vector<ContentBuffer> targets;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    targets.push_back({static_cast<std::uint32_t>(i), contents[i].size(),
                       memory_file(std::vector<std::byte>(contents[i].size()))});
  }
  upload(*make_cpu_engine(kRing), targets, PagesReader(file.get()), kWork, {}, progress);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    CAPTURE(i);
    CHECK(content_of(targets[i].dmabuf.get()) == contents[i]);
  }
}

}  // namespace

TEST_CASE("snapshot: buffers lie one behind the other, none in two pieces of memory") {
  const auto buffers = of_sizes({4096, 1, 8192, 40960, 4096});
  const SnapshotPlan plan = plan_snapshot(buffers, 16384);
  CHECK(plan.memory == std::vector<std::uint64_t>{16384, 40960, 4096});
  const std::pair<std::size_t, std::uint64_t> places[] = {
      {0, 0}, {0, 4096}, {0, 8192}, {1, 0}, {2, 0}};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    CAPTURE(i);
    CHECK(plan.places[i].memory == places[i].first);
    CHECK(plan.places[i].offset == places[i].second);
  }
  CHECK(plan_snapshot({}, 4096).memory.empty());
}

TEST_CASE("snapshot: sizes that are none, or that overflow together, are refused") {
  constexpr std::uint64_t kHuge = 1ull << 62;
  const auto refused = [](std::initializer_list<std::uint64_t> sizes) {
    return code_of([&] { plan_snapshot(of_sizes(sizes), 4096); }) == ErrorCode::protocol;
  };
  CHECK(refused({4096, 0}));
  CHECK(refused({~0ull}));
  CHECK(refused({kHuge + 1}));
  CHECK(refused({kHuge, 1}));
  CHECK(refused({kHuge - 4096, 4096, 1}));
  CHECK_FALSE(refused({kHuge}));
  CHECK_FALSE(refused({kHuge - 4096, 1}));
  // 300 GiB in buffers of 3 GiB, as a sparse set has them.
  std::vector<ContentBuffer> many;
  for (unsigned i = 0; i < 100; ++i) many.push_back({i, 3ull << 30, {}});
  const SnapshotPlan plan = plan_snapshot(many, ~0ull);
  CHECK(plan.memory == std::vector<std::uint64_t>{300ull << 30});
  CHECK(plan.places.back().offset == 297ull << 30);
}

TEST_CASE("snapshot: a copy in VRAM is what the buffers were, whatever becomes of them") {
  const auto contents = sample();
  const auto buffers = buffers_of(contents);
  std::optional<Snapshot> snapshot;
  {
    FakeEngine engine(kTurns);
    engine.spare_vram = kRoom;
    snapshot = snapshot_to_vram(engine, buffers, {});
    CHECK(engine.breaches.empty());
    CHECK(engine.in_flight() == 0);
    CHECK(engine.live == 0);
    CHECK(engine.most_in_flight == kTurns.slots);
    // The two that need more than a copy, and the small ones 32 at a time.
    CHECK(engine.starts < 8);
  }
  REQUIRE(snapshot);
  CHECK(snapshot->memory.size() == 1);
  overwrite(buffers);
  check_drained(*snapshot, contents);
}

TEST_CASE("snapshot: a copy in host memory is what the buffers were, whatever becomes of them") {
  const auto contents = sample();
  const auto buffers = buffers_of(contents);
  FakeEngine engine(kRing);
  const Snapshot snapshot = snapshot_to_host(engine, buffers, kWork, {});
  CHECK(engine.breaches.empty());
  CHECK(engine.live == 0);
  CHECK(snapshot.memory.size() == 1);
  overwrite(buffers);
  check_drained(snapshot, contents);
  // The CPU engine has only this way.
  const auto again = buffers_of(contents);
  check_drained(snapshot_to_host(*make_cpu_engine(kRing), again, kWork, {}), contents);
}

TEST_CASE("snapshot: without room in VRAM there is none, and nothing stays allocated") {
  // Their contents are never read.
  const auto buffers =
      buffers_of({std::vector<std::byte>(200u << 20), std::vector<std::byte>(100u << 20)});
  const std::size_t before = open_descriptors();
  FakeEngine engine(kTurns);
  engine.spare_vram = 299u << 20;  // for the first piece of memory, but not for the second
  CHECK_FALSE(snapshot_to_vram(engine, buffers, {}));
  CHECK(engine.starts == 0);
  CHECK(engine.live == 0);
  CHECK(open_descriptors() == before);
  CHECK_FALSE(snapshot_to_vram(*make_cpu_engine(kTurns), buffers, {}));
}

TEST_CASE("snapshot: whatever fails, nothing is in flight and nothing stays") {
  const auto buffers = buffers_of(sample());
  const std::size_t before = open_descriptors();
  const auto in_vram = [&](const Faults& faults, std::stop_token stop = {}) {
    FakeEngine engine(kTurns, faults);
    engine.spare_vram = kRoom;
    const auto code = code_of([&] { snapshot_to_vram(engine, buffers, stop); });
    CHECK(engine.breaches.empty());
    CHECK(engine.in_flight() == 0);
    CHECK(engine.live == 0);
    return code;
  };
  const auto in_host = [&](const Faults& faults, std::stop_token stop = {}) {
    FakeEngine engine(kRing, faults);
    const auto code = code_of([&] { snapshot_to_host(engine, buffers, kWork, stop); });
    CHECK(engine.breaches.empty());
    CHECK(engine.in_flight() == 0);
    CHECK(engine.live == 0);
    return code;
  };
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    for (const Faults& faults : {Faults{.start = i}, Faults{.wait = i}, Faults{.import = i}}) {
      CHECK(in_vram(faults) == ErrorCode::gpu);
      CHECK(in_host(faults) == ErrorCode::gpu);
    }
  }
  std::stop_source stop;
  stop.request_stop();
  CHECK(in_vram({}, stop.get_token()) == ErrorCode::cancelled);
  CHECK(in_host({}, stop.get_token()) == ErrorCode::cancelled);
  CHECK(open_descriptors() == before);
}

TEST_CASE("cpu engine: a buffer that begins inside a dma-buf") {
  const auto content = noise(4 * 4096, 9);
  const UniqueFd fd = memory_file(content);
  const auto engine = make_cpu_engine(kRing);
  const auto buffer = engine->import(fd.get(), 8192, 4096);
  const CopySegment segment{buffer.get(), 100, 0, 0, 8000};
  engine->start_read({&segment, 1});
  CHECK(std::equal(content.begin() + 4196, content.begin() + 4196 + 8000, engine->slot(0).begin()));
  CHECK(code_of([&] { (void)engine->import(fd.get(), 8192, 12288); }) == ErrorCode::gpu);
  CHECK(code_of([&] { (void)engine->import(fd.get(), 4096, 16384); }) == ErrorCode::gpu);
  CHECK(code_of([&] { (void)engine->import(fd.get(), ~0ull, 4096); }) == ErrorCode::gpu);
}
