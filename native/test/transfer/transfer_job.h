// Drains and uploads with a FakeEngine, for the tests of what they move and of how they fail.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/os/error.h"
#include "core/transfer/transfer.h"
#include "test/copy/fake_engine.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/transfer/content_buffers.h"

namespace kfdcp::test {

inline constexpr std::size_t kFrame = 1u << 20;
inline constexpr EngineOptions kRing{.slots = 3, .slot_bytes = kFrame};
inline const PagesOptions kPages{.frame_bytes = kFrame};
inline constexpr TransferOptions kWork{.workers = 2};

/// Sizes below, at and above a frame, of odd page counts; sparse, empty and dense content.
inline std::vector<std::vector<std::byte>> sample() {
  std::vector<std::vector<std::byte>> contents;
  contents.push_back(noise(4096, 1));
  contents.push_back(noise(kFrame, 2));
  contents.push_back(noise(3 * kFrame + 3 * 4096, 3));
  contents.push_back(std::vector<std::byte>(4 * kFrame + 4096));
  contents.push_back(noise(5 * 4096, 4));
  auto sparse = noise(3 * kFrame, 5);
  std::fill(sparse.begin() + kFrame, sparse.begin() + 2 * kFrame, std::byte{0});
  contents.push_back(std::move(sparse));
  return contents;
}

inline std::uint64_t bytes_of(const std::vector<std::vector<std::byte>>& contents) {
  std::uint64_t sum = 0;
  for (const auto& content : contents) sum += content.size();
  return sum;
}

/// Buffers of the same sizes, full of rubbish, as a restore finds them.
inline std::vector<ContentBuffer> dirty_buffers_of(
    const std::vector<std::vector<std::byte>>& contents) {
  auto rubbish = contents;
  for (auto& content : rubbish) std::fill(content.begin(), content.end(), std::byte{0xa5});
  return buffers_of(rubbish);
}

inline void check_contents(const std::vector<ContentBuffer>& buffers,
                           const std::vector<std::vector<std::byte>>& contents) {
  REQUIRE(buffers.size() == contents.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    CAPTURE(i);
    CHECK(content_of(buffers[i].dmabuf.get()) == contents[i]);
  }
}

/// A pages file of `contents`, drained with the CPU.
inline UniqueFd pages_of(const std::vector<std::vector<std::byte>>& contents) {
  UniqueFd file = memory_file();
  PagesWriter out(file.get(), kPages);
  TransferProgress progress;
  const auto engine = make_cpu_engine(kRing);
  drain(*engine, buffers_of(contents), out, kWork, {}, progress);
  out.finish();
  return file;
}

/// One job with a FakeEngine, and what became of it.
struct Job {
  explicit Job(const Faults& faults = {}) : engine(kRing, faults) {}
  explicit Job(const EngineOptions& ring, const Faults& faults = {}) : engine(ring, faults) {}

  std::optional<ErrorCode> drain_all(const std::vector<ContentBuffer>& buffers) {
    const UniqueFd file = memory_file();
    PagesWriter out(file.get(), kPages);
    return code_of([&] { drain(engine, buffers, out, kWork, stop.get_token(), progress); });
  }
  std::optional<ErrorCode> upload_all(const std::vector<ContentBuffer>& buffers, int file) {
    const PagesReader in(file);
    return code_of([&] { upload(engine, buffers, in, kWork, stop.get_token(), progress); });
  }
  /// Nothing is left behind and the engine was used as it has to be.
  void check_clean() const {
    CHECK(engine.in_flight() == 0);
    CHECK(engine.live == 0);
    CHECK(engine.breaches == std::vector<std::string>{});
  }
  void stop_at(std::size_t event) {
    engine.on_event = [this, event, n = std::size_t{0}]() mutable {
      if (n++ == event) stop.request_stop();
    };
  }

  FakeEngine engine;
  std::stop_source stop;
  TransferProgress progress;
};

/// Uploads `contents` over rubbish: they are all there then, and nothing else is left.
inline void check_upload(Job& job, const std::vector<std::vector<std::byte>>& contents) {
  const UniqueFd file = pages_of(contents);
  const auto targets = dirty_buffers_of(contents);
  CHECK_FALSE(job.upload_all(targets, file.get()));
  job.check_clean();
  check_contents(targets, contents);
}

}  // namespace kfdcp::test
