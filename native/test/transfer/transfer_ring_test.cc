#include "core/transfer/transfer_ring.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/os/error.h"
#include "test/copy/fake_engine.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/transfer/transfer_job.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

constexpr std::size_t kSlots = 8;
constexpr std::size_t kPart = 8192;
using Slots = std::vector<std::size_t>;

/// A ring of an engine that likes three slots a copy, and one buffer of as many parts as slots.
struct Fixture {
  explicit Fixture(const Faults& faults = {}) : engine({kSlots, kPart}, faults) {
    engine.slots_a_copy = 3;
  }
  void open() { buffer = ring->open(5, memory.get(), content.size()); }
  void read(std::size_t parts) {
    if (!buffer) open();
    for (std::size_t i = 0; i < parts; ++i, ++next) {
      ring->read(ring->take(), {{buffer, next * kPart, 0, kPart}});
    }
  }
  bool holds(std::size_t slot) {
    return std::ranges::equal(engine.slot(slot), std::span(content).subspan(slot * kPart, kPart));
  }
  /// What is left behind, after the ring.
  void check_clean() {
    buffer.reset();
    ring.reset();
    CHECK(engine.in_flight() == 0);
    CHECK(engine.live == 0);
    CHECK(engine.breaches == std::vector<std::string>{});
  }

  const std::vector<std::byte> content = noise(kSlots * kPart, 1);
  const UniqueFd memory = memory_file(content);
  FakeEngine engine;
  std::unique_ptr<TransferRing> ring = std::make_unique<TransferRing>(engine);
  std::shared_ptr<LiveBuffer> buffer;
  std::size_t next = 0;
};

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("transfer ring: while a full copy's slots are copied, others gather to full copies") {
  Fixture one;
  one.read(kSlots);
  CHECK(one.engine.starts == 4);
  CHECK(one.engine.most_slots == 3);
  CHECK(one.engine.in_flight() == 6);
  for (const Slots& slots : {Slots{0}, Slots{1}, Slots{2}, Slots{3, 4, 5}, Slots{6, 7}}) {
    CHECK(one.ring->wait() == slots);
    for (const std::size_t slot : slots) CHECK(one.holds(slot));
  }
  CHECK(one.ring->in_flight() == 0);
  one.check_clean();
}

TEST_CASE("transfer ring: what gathers starts when little runs, however little it is") {
  Fixture one;
  one.read(4);
  CHECK(one.engine.starts == 3);
  CHECK(one.ring->in_flight() == 4);
  CHECK(one.ring->wait() == Slots{0});
  CHECK(one.engine.starts == 4);
  one.read(1);
  CHECK(one.engine.starts == 4);  // three slots run
  CHECK(one.ring->wait() == Slots{1});
  CHECK(one.engine.starts == 5);
  for (const std::size_t slot : {2, 3, 4}) CHECK(one.ring->wait() == Slots{slot});
  CHECK(one.holds(4));
  one.check_clean();
}

TEST_CASE("transfer ring: one full copy is not enough, the engine would wait for the next one") {
  Fixture one;
  one.read(6);
  for (int i = 0; i < 3; ++i) one.ring->wait();
  CHECK(one.engine.in_flight() == 3);
  one.read(1);
  CHECK(one.engine.in_flight() == 4);
  one.read(1);
  CHECK(one.engine.in_flight() == 4);
  one.check_clean();
}

TEST_CASE("transfer ring: what gathers is never started when the ring goes") {
  Fixture one;
  one.read(4);
  one.check_clean();
  CHECK(one.engine.starts == 3);
}

TEST_CASE("transfer ring: reads and writes do not share a copy") {
  Fixture one;
  one.read(4);
  const std::size_t slot = one.ring->take();
  one.ring->write(slot, {{one.buffer, 4 * kPart, 0, kPart}});
  CHECK(one.engine.starts == 4);
  CHECK(one.ring->in_flight() == 5);
  CHECK(one.engine.most_slots == 1);
  one.check_clean();
}

TEST_CASE("transfer ring: a gathered copy that fails is named, and nothing stays in flight") {
  Fixture full(Faults{.start = 3});
  CHECK(message_of([&] { full.read(kSlots); }) == "buffer 5: fake start");
  full.check_clean();
  Fixture late(Faults{.start = 3});
  late.read(4);
  CHECK(message_of([&] { late.ring->wait(); }) == "buffer 5: fake start");
  late.check_clean();
  Fixture waited(Faults{.wait = 3});
  waited.read(kSlots);
  for (int i = 0; i < 3; ++i) waited.ring->wait();
  CHECK(message_of([&] { waited.ring->wait(); }) == "buffer 5: fake wait");
  waited.check_clean();
}

TEST_CASE("transfer ring: drains and uploads by copies of several slots") {
  auto contents = sample();
  contents.push_back(noise(20 * kFrame, 6));
  const UniqueFd file = pages_of(contents);
  const auto job_of = [](const Faults& faults) {
    auto job = std::make_unique<Job>(EngineOptions{.slots = 9, .slot_bytes = kFrame}, faults);
    job->engine.slots_a_copy = 3;
    return job;
  };
  const auto out = job_of({});
  CHECK_FALSE(out->drain_all(buffers_of(contents)));
  out->check_clean();
  CHECK(out->engine.most_slots == 3);
  const auto in = job_of({});
  check_upload(*in, contents);
  for (std::size_t n = 0; n < 7; ++n) {
    for (const Faults& faults : {Faults{.start = n}, Faults{.wait = n}}) {
      const auto drained = job_of(faults);
      CHECK(drained->drain_all(buffers_of(contents)) == ErrorCode::gpu);
      drained->check_clean();
      const auto filled = job_of(faults);
      CHECK(filled->upload_all(dirty_buffers_of(contents), file.get()) == ErrorCode::gpu);
      filled->check_clean();
    }
  }
}
