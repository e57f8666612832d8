// The slots of a copy engine: free, used by a copy, or taken by a caller.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/copy/copy_engine.h"

namespace kfdcp {

/// A buffer while copies use it.
struct LiveBuffer {
  std::uint32_t id;  // buffer id of the manifest, for messages
  std::unique_ptr<DeviceBuffer> device;
};

/// Part of a copy: see CopySegment.
struct LiveSegment {
  std::shared_ptr<LiveBuffer> buffer;
  std::uint64_t offset;
  std::size_t slot_offset;
  std::size_t bytes;
};

/// A place in a buffer of CopyEngine::allocate().
struct MoveTarget {
  DeviceBuffer* buffer;
  std::uint64_t offset;
};

/// Keeps copies in flight and what they need alive. Destroying it waits for all of them, so that
/// no copy outlives its slot or its buffer, however a job ends. Errors of the engine come out
/// with the ids of the buffers in front.
///
/// Two copies with the slots of a full one keep an engine busy while this thread sleeps. While as
/// much runs, slots that are to be copied gather in the next copy, which starts when it is full or
/// when less runs.
class TransferRing {
 public:
  /// The engine must be idle, and is used through this alone until this is destroyed.
  explicit TransferRing(CopyEngine& engine);
  ~TransferRing();
  TransferRing(const TransferRing&) = delete;
  TransferRing& operator=(const TransferRing&) = delete;

  /// Imports a buffer; `dmabuf_fd` is borrowed. It is released when neither the caller nor a copy
  /// holds it any more.
  std::shared_ptr<LiveBuffer> open(std::uint32_t id, int dmabuf_fd, std::uint64_t size,
                                   std::optional<std::uint64_t> offset = {});

  bool has_free() const { return !free_.empty(); }
  /// Takes the slot that was free longest; there must be one.
  std::size_t take();
  /// The slot is free again; no copy is in it.
  void give_back(std::size_t slot) { free_.push_back(slot); }

  /// Copy between a slot that was taken and buffers, at once or together with others.
  void read(std::size_t slot, std::vector<LiveSegment> from);
  void write(std::size_t slot, std::vector<LiveSegment> to);
  /// Starts a copy from buffers to `to`, one place for each segment, in a slot that was taken. What
  /// the places are in must outlive it.
  void move(std::size_t slot, std::vector<LiveSegment> from, std::span<const MoveTarget> to);

  /// Copies that run or gather.
  std::size_t in_flight() const { return copies_.size(); }
  /// Waits for the oldest copy; returns its slots, still taken. Its buffers are released.
  std::vector<std::size_t> wait();

  /// Time spent waiting so far.
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  enum class Kind { read, write, move };
  struct Copy {
    Kind kind;
    std::vector<std::size_t> slots{};
    std::vector<CopySegment> segments{};  // none of a move
    std::vector<std::shared_ptr<LiveBuffer>> buffers{};
    bool gathers = true;
    bool in_flight = false;
  };

  void gather(Kind kind, std::size_t slot, std::vector<LiveSegment> segments);
  bool gathering() const { return !copies_.empty() && copies_.back().gathers; }
  std::size_t running() const { return copies_.size() - (gathering() ? 1 : 0); }
  bool busy() const;
  /// Starts the copy that came last.
  void start(const std::function<void(const Copy&)>& how);
  void start_gathered();

  CopyEngine& engine_;
  std::deque<std::size_t> free_;
  std::deque<Copy> copies_;  // in the order in which they started
  std::chrono::nanoseconds waited_{0};
};

}  // namespace kfdcp
