// A copy engine of buffers on memfds, as late and as unordered as the contract allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/copy/copy_engine.h"

namespace kfdcp::test {

/// What a FakeEngine shall do wrong, counted from 0.
struct Faults {
  std::optional<std::size_t> start = {};   // this start_* throws
  std::optional<std::size_t> wait = {};    // the copy started as this one fails when waited for
  std::optional<std::size_t> import = {};  // this import throws
};

/// Copies happen in wait() alone, after an arbitrary subset of the copies started before or after.
/// Slots and buffers hold rubbish until then. Breaches of the contract are counted.
class FakeEngine final : public CopyEngine {
 public:
  FakeEngine(const EngineOptions& options, const Faults& faults = {});
  ~FakeEngine() override;

  std::size_t slots() const override { return options_.slots; }
  std::size_t slot_bytes() const override { return options_.slot_bytes; }
  std::span<std::byte> slot(std::size_t index) override;
  std::size_t copy_slots() const override { return slots_a_copy; }
  std::unique_ptr<DeviceBuffer> import(int dmabuf_fd, std::uint64_t size,
                                       std::optional<std::uint64_t> offset) override;
  std::optional<AllocatedBuffer> allocate(std::uint64_t bytes) override;
  void start_read(std::span<const CopySegment> from) override;
  void start_write(std::span<const CopySegment> to) override;
  void start_move(std::span<const CopyMove> moves, std::size_t slot) override;
  void wait(std::size_t slot) override;

  /// Called before every start and every wait.
  std::function<void()> on_event = [] {};

  std::size_t slots_a_copy = 1;

  std::uint64_t spare_vram = 0;  // bytes; what is allocated is taken off

  std::size_t in_flight() const;  // slots
  std::size_t most_in_flight = 0;
  std::size_t live = 0;  // imported buffers
  std::size_t most_live = 0;
  std::size_t starts = 0;
  std::size_t most_slots = 0;           // of one copy
  std::vector<std::uint64_t> imported;  // sizes asked for, in order
  std::vector<std::string> breaches;

 private:
  class Buffer;
  struct Copy {
    std::vector<CopySegment> segments;
    std::vector<CopyMove> moves;
    bool write;
    bool fails;
    bool done;
  };

  void start(std::span<const CopySegment> segments, bool write);
  void begin(const std::vector<std::size_t>& slots, Copy copy);
  void check(std::span<const CopySegment> segments, bool write);
  std::span<std::byte> device(const CopySegment& segment) const;
  std::span<std::byte> host(const CopySegment& segment);
  void perform(Copy& copy);

  EngineOptions options_;
  Faults faults_;
  std::vector<std::byte> staging_;
  std::vector<std::shared_ptr<Copy>> copies_;  // by slot
  std::minstd_rand random_{1};
};

}  // namespace kfdcp::test
