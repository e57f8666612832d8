#include "core/transfer/copy_trial.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/os/error.h"
#include "test/copy/fake_engine.h"
#include "test/os/memory_file.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

constexpr std::size_t kPart = 8192;
constexpr std::size_t kBytes = 10 * kPart + 4096;

ContentBuffer buffer() { return {3, kBytes, memory_file(Bytes(kBytes)), {}}; }

void check_clean(const FakeEngine& engine) {
  CHECK(engine.in_flight() == 0);
  CHECK(engine.live == 0);
  CHECK(engine.breaches == std::vector<std::string>{});
}

/// The Error of a trial with `engine`; "" when there was none.
std::pair<std::string, ErrorCode> failure(FakeEngine& engine, const ContentBuffer& tried,
                                          const std::stop_token& stop = {}) {
  try {
    try_copies(engine, tried, 1, stop);
  } catch (const Error& error) {
    return {error.what(), error.code};
  }
  return {"", ErrorCode::io};
}

}  // namespace

TEST_CASE("copy trial: both directions, all slots in flight, whole buffer") {
  for (const std::size_t slots : {1, 3, 8, 32}) {
    CAPTURE(slots);
    FakeEngine engine({slots, kPart});
    const ContentBuffer tried = buffer();
    const CopyTrial trial = try_copies(engine, tried, 1, {});
    CHECK(trial.bytes == kBytes);
    CHECK(engine.most_in_flight == std::min<std::size_t>(slots, 11));
    check_clean(engine);
  }
}

TEST_CASE("copy trial: what it leaves has no two words in common, and belongs to its seed") {
  std::set<Bytes> words;
  for (const std::uint64_t seed : {1, 2}) {
    FakeEngine engine({4, kPart});
    const ContentBuffer tried = buffer();
    try_copies(engine, tried, seed, {});
    const Bytes content = content_of(tried.dmabuf.get());
    for (std::size_t at = 0; at < content.size(); at += 8) {
      words.insert(Bytes(content.begin() + static_cast<std::ptrdiff_t>(at),
                         content.begin() + static_cast<std::ptrdiff_t>(at + 8)));
    }
  }
  CHECK(words.size() == 2 * kBytes / 8);
}

TEST_CASE("copy trial: one wrong bit, in any copy of either direction, is found") {
  FakeEngine counted({4, kPart});
  const ContentBuffer usual = buffer();
  try_copies(counted, usual, 1, {});
  std::size_t found = 0;
  for (std::size_t event = 0; event < 2 * counted.starts; ++event) {
    FakeEngine engine({4, kPart});
    const ContentBuffer tried = buffer();
    std::size_t events = 0;
    // In memory of the buffer, whoever has written it; what is timed only is not read again.
    engine.on_event = [&] {
      if (events++ != event) return;
      Bytes byte(1);
      read_exactly(tried.dmabuf.get(), byte, 5000, "buffer");
      byte[0] ^= std::byte{4};
      iovec part = write_part(byte);
      write_exactly(tried.dmabuf.get(), {&part, 1}, 5000, "buffer");
    };
    const auto [message, code] = failure(engine, tried);
    if (!message.empty()) {
      ++found;
      CHECK(code == ErrorCode::gpu);
      CHECK(message.find("copy trial: byte 5000 came back as 0x") == 0);
    }
    engine.on_event = [] {};
    check_clean(engine);
  }
  CHECK(found > counted.starts / 4);
}

TEST_CASE("copy trial: errors of the engine come out, with nothing in flight") {
  for (std::size_t copy = 0; copy < 55; copy += 6) {
    for (const bool start : {true, false}) {
      Faults faults;
      (start ? faults.start : faults.wait) = copy;
      FakeEngine engine({4, kPart}, faults);
      const ContentBuffer tried = buffer();
      CHECK(failure(engine, tried).first.find(start ? "fake start" : "fake wait") !=
            std::string::npos);
      check_clean(engine);
    }
  }
}

TEST_CASE("copy trial: it stops when it is asked to") {
  FakeEngine engine({4, kPart});
  const ContentBuffer tried = buffer();
  std::stop_source stop;
  std::size_t events = 0;
  engine.on_event = [&] {
    if (events++ == 30) stop.request_stop();
  };
  CHECK(failure(engine, tried, stop.get_token()).second == ErrorCode::cancelled);
  CHECK(events < 45);
  engine.on_event = [] {};
  check_clean(engine);
}
