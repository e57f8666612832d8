// A device that is a clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/copy/copy_staging.h"

namespace kfdcp::bench {

using Clock = std::chrono::steady_clock;

/// When copies of a link end.
class Link {
 public:
  explicit Link(double bytes_per_s) : ns_per_byte_(1e9 / bytes_per_s) {}
  Clock::time_point start(std::uint64_t bytes) {
    const auto time = std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(bytes) * ns_per_byte_));
    free_ = std::max(free_, Clock::now()) + time + kPerCopy;
    return free_;
  }

 private:
  static constexpr auto kPerCopy = std::chrono::microseconds(5);

  double ns_per_byte_;
  Clock::time_point free_{};
};

/// A device behind a Link. What it holds is noise, another one in each segment.
class ModelEngine final : public CopyEngine {
 public:
  ModelEngine(const EngineOptions& options, double bytes_per_s)
      : staging_(options), link_(bytes_per_s), ends_(options.slots) {
    std::mt19937_64 random(1);
    for (std::size_t at = 0; at < staging_.all().size(); at += 8) {
      const std::uint64_t word = random();
      std::memcpy(staging_.all().data() + at, &word, sizeof word);
    }
  }
  std::size_t slots() const override { return staging_.slots(); }
  std::size_t slot_bytes() const override { return staging_.slot_bytes(); }
  std::span<std::byte> slot(std::size_t index) override { return staging_.slot(index); }
  std::unique_ptr<DeviceBuffer> import(int, std::uint64_t, std::uint64_t) override {
    return std::make_unique<DeviceBuffer>();
  }
  void start_read(std::span<const CopySegment> from, std::size_t slot) override {
    for (const CopySegment& segment : from) {
      ++stamp_;
      std::memcpy(staging_.slot(slot).data() + segment.slot_offset, &stamp_, sizeof stamp_);
    }
    start_write(from, slot);
  }
  void start_write(std::span<const CopySegment> to, std::size_t slot) override {
    std::uint64_t bytes = 0;
    for (const CopySegment& segment : to) bytes += segment.bytes;
    ends_[slot] = link_.start(bytes);
  }
  void wait(std::size_t slot) override { std::this_thread::sleep_until(ends_[slot]); }
  /// Between transfers.
  void set_link(double bytes_per_s) { link_ = Link(bytes_per_s); }

 private:
  Staging staging_;
  Link link_;
  std::vector<Clock::time_point> ends_;
  std::uint64_t stamp_ = 0;
};

}  // namespace kfdcp::bench
