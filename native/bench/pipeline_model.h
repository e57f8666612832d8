// A device that is a clock.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/copy/copy_staging.h"
#include "core/os/page_memory.h"

namespace kfdcp::bench {

using Clock = std::chrono::steady_clock;

/// When copies of a link end.
class Link {
 public:
  explicit Link(double bytes_per_s) : ns_per_byte_(1e9 / bytes_per_s) {}
  Clock::time_point start(std::uint64_t bytes, Clock::time_point now) {
    const auto time = std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(bytes) * ns_per_byte_));
    free_ = std::max(free_, now) + time + kPerCopy;
    return free_;
  }

 private:
  static constexpr auto kPerCopy = std::chrono::microseconds(5);

  double ns_per_byte_;
  Clock::time_point free_{};
};

/// Processor time of this thread.
inline std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// What is a BO of the staging memory: each slot, or, to compare with, the whole ring.
enum class Pinned { slots, ring };

/// A device behind a Link. What it holds is noise, another one in each segment. A copy costs the
/// thread that starts it time of a processor: the kernel looks up each page of the user memory that
/// a submission lists (amdgpu_cs.c:amdgpu_cs_parser_bos@7.3.4).
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
  std::size_t copy_slots() const override {
    return pinned_ == Pinned::ring ? 1 : staging_.copy_slots();
  }
  std::unique_ptr<DeviceBuffer> import(int, std::uint64_t, std::optional<std::uint64_t>) override {
    return std::make_unique<DeviceBuffer>();
  }
  void start_read(std::span<const CopySegment> from) override {
    for (const CopySegment& segment : from) {
      ++stamp_;
      std::memcpy(slot(segment.slot).data() + segment.slot_offset, &stamp_, sizeof stamp_);
    }
    start_write(from);
  }
  void start_write(std::span<const CopySegment> to) override {
    const std::vector<std::size_t> slots = slots_of(to);
    const std::size_t listed =
        pinned_ == Pinned::ring ? staging_.all().size() : slots.size() * slot_bytes();
    spend(kPerPage * static_cast<std::int64_t>(listed / kPageBytes));
    std::uint64_t bytes = 0;
    for (const CopySegment& segment : to) bytes += segment.bytes;
    const Clock::time_point end = link_.start(bytes, now());
    for (const std::size_t slot : slots) ends_[slot] = end;
  }
  void wait(std::size_t slot) override {
    if (!alone_) return std::this_thread::sleep_until(ends_[slot]);
    slept_ += std::max(ends_[slot] - now(), Clock::duration(0));
  }
  /// Between transfers.
  void set_link(double bytes_per_s) { link_ = Link(bytes_per_s); }
  /// For one thread alone: time is what it uses of a processor and what it sleeps, whatever others
  /// do on this host.
  void be_alone() { alone_ = true; }
  Clock::time_point now() const {
    return alone_ ? Clock::time_point(processor_time() + slept_) : Clock::now();
  }
  void set_pinned(Pinned pinned) { pinned_ = pinned; }
  /// Time of submissions since the last call.
  std::chrono::nanoseconds submitted() { return std::exchange(submitted_, {}); }

 private:
  static constexpr std::chrono::nanoseconds kPerPage{10};

  void spend(std::chrono::nanoseconds time) {
    const auto end = processor_time() + time;
    while (processor_time() < end) continue;
    submitted_ += time;
  }

  Staging staging_;
  Link link_;
  Pinned pinned_ = Pinned::slots;
  std::chrono::nanoseconds submitted_{0};
  bool alone_ = false;
  Clock::duration slept_{0};
  std::vector<Clock::time_point> ends_;
  std::uint64_t stamp_ = 0;
};

}  // namespace kfdcp::bench
