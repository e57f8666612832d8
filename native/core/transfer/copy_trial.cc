#include "core/transfer/copy_trial.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <span>
#include <vector>

#include "core/os/error.h"
#include "core/os/pattern.h"
#include "core/transfer/transfer_ring.h"
#include "core/transfer/transfer_run.h"

namespace kfdcp {
namespace {

/// `bytes` lie at `offset` of the buffer, and are to be those of piece `key` from `at` on.
void compare(std::span<const std::byte> bytes, std::uint64_t key, std::uint64_t at,
             std::uint64_t offset) {
  const auto difference = pattern_difference(bytes, key, at);
  if (!difference) return;
  char text[96];
  std::snprintf(text, sizeof text, "copy trial: byte %llu came back as 0x%02x instead of 0x%02x",
                static_cast<unsigned long long>(offset + (difference->at - at)),
                static_cast<unsigned>(difference->is), static_cast<unsigned>(difference->expected));
  throw Error(ErrorCode::gpu, text);
}

/// One pass over the buffer, part by part of a slot each.
class Trial {
 public:
  Trial(CopyEngine& engine, const ContentBuffer& buffer, std::uint64_t seed,
        const std::stop_token& stop)
      : engine_(engine), buffer_(buffer), seed_(seed), stop_(stop) {}

  /// Contents of a slot stay as they are: only copies take time. `writers`: the slot of each part.
  std::uint64_t timed_write(std::vector<std::size_t>& writers) {
    for (std::size_t slot = 0; slot < engine_.slots(); ++slot)
      write_pattern(engine_.slot(slot), slot_key(slot), 0);
    const auto begin = Clock::now();
    write([&](std::size_t slot, std::uint64_t) { writers.push_back(slot); });
    return microseconds(Clock::now() - begin);
  }

  std::uint64_t timed_read() {
    const auto begin = Clock::now();
    read([](std::size_t) {}, [](std::size_t, std::uint64_t, std::size_t) {});
    return microseconds(Clock::now() - begin);
  }

  void check_written_by(const std::vector<std::size_t>& writers) {
    check([&](std::span<const std::byte> bytes, std::uint64_t offset) {
      compare(bytes, slot_key(writers[offset / engine_.slot_bytes()]), 0, offset);
    });
  }

  void write_distinct() {
    write([&](std::size_t slot, std::uint64_t offset) {
      write_pattern(engine_.slot(slot).first(part_at(offset)), seed_, offset);
    });
  }

  void check_distinct() {
    check([&](std::span<const std::byte> bytes, std::uint64_t offset) {
      compare(bytes, seed_, offset, offset);
    });
  }

 private:
  std::uint64_t slot_key(std::size_t slot) const { return seed_ * 64 + slot + 1; }

  std::size_t part_at(std::uint64_t offset) const {
    return static_cast<std::size_t>(
        std::min<std::uint64_t>(engine_.slot_bytes(), buffer_.size - offset));
  }

  template <class Prepare>
  void write(Prepare&& prepare) {
    TransferRing ring(engine_);
    const auto live = ring.open(buffer_.id, buffer_.dmabuf.get(), buffer_.size, buffer_.offset);
    for (std::uint64_t offset = 0; offset < buffer_.size; offset += engine_.slot_bytes()) {
      check_stop(stop_);
      if (!ring.has_free()) {
        for (const std::size_t slot : ring.wait()) ring.give_back(slot);
      }
      const std::size_t slot = ring.take();
      prepare(slot, offset);
      ring.write(slot, {{live, offset, 0, part_at(offset)}});
    }
    while (ring.in_flight() > 0) ring.wait();
  }

  /// `prepare` gets a slot before it is read into; `take` gets it with the offset and size of what
  /// is in it then.
  template <class Prepare, class Take>
  void read(Prepare&& prepare, Take&& take) {
    std::deque<std::uint64_t> offsets;
    TransferRing ring(engine_);
    const auto live = ring.open(buffer_.id, buffer_.dmabuf.get(), buffer_.size, buffer_.offset);
    const auto retire = [&] {
      for (const std::size_t slot : ring.wait()) {
        const std::uint64_t offset = offsets.front();
        offsets.pop_front();
        take(slot, offset, part_at(offset));
        ring.give_back(slot);
      }
    };
    for (std::uint64_t offset = 0; offset < buffer_.size; offset += engine_.slot_bytes()) {
      check_stop(stop_);
      if (!ring.has_free()) retire();
      const std::size_t slot = ring.take();
      prepare(slot);
      ring.read(slot, {{live, offset, 0, part_at(offset)}});
      offsets.push_back(offset);
    }
    while (ring.in_flight() > 0) retire();
  }

  /// `judge` gets what came back from an offset of the buffer.
  template <class Judge>
  void check(Judge&& judge) {
    // A copy that does nothing must not find the bytes of one before it.
    read([&](std::size_t slot) { std::ranges::fill(engine_.slot(slot), std::byte{0xee}); },
         [&](std::size_t slot, std::uint64_t offset, std::size_t size) {
           judge(engine_.slot(slot).first(size), offset);
         });
  }

  CopyEngine& engine_;
  const ContentBuffer& buffer_;
  const std::uint64_t seed_;
  const std::stop_token& stop_;
};

}  // namespace

CopyTrial try_copies(CopyEngine& engine, const ContentBuffer& buffer, std::uint64_t seed,
                     const std::stop_token& stop) {
  Trial trial(engine, buffer, seed, stop);
  std::vector<std::size_t> writers;
  const std::uint64_t write_us = trial.timed_write(writers);
  trial.check_written_by(writers);
  const std::uint64_t read_us = trial.timed_read();
  trial.write_distinct();
  trial.check_distinct();
  return {buffer.size, write_us, read_us};
}

}  // namespace kfdcp
