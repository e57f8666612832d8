// Counters in several kinds of memory that the GPU increments in one order, all the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "bare_queue.h"
#include "held.h"

namespace lab {

/// --ordered: pages in VRAM, in GTT, in user memory, in a file of /dev/shm that has no name any
/// more and in one that has. One queue increments all counters of the first page, then of the
/// second, and so on, and begins again: at any moment no counter is above one before it, and the
/// last is at most one below the first.
///
/// A page begins with the 8 bytes "KFDORDER" and the place of the page in that order (u32); in the
/// first page the number of rounds that the GPU was given follows (u32), else 0. All the rest are
/// u32 counters. So pages can be found in a checkpoint's files.
class Ordered : public Holding {
 public:
  /// Starts it. Throws Error{gpu} or Error{io}.
  Ordered(const BareGpu& gpu, std::chrono::milliseconds limit);
  ~Ordered() override;

  const char* name() const override { return "ordered"; }
  /// Lets the GPU finish what it has, without more: all counters must then be the number of rounds.
  /// Throws Error{gpu} or Error{corrupt}.
  void check() override;
  /// Gives the GPU work for some seconds. To be called more often than that.
  void feed();
  /// Rounds that the GPU says it has done.
  std::uint64_t rounds() const;

 private:
  void add(BareBuffer buffer);

  const std::chrono::milliseconds limit_;
  AqlQueue queue_;
  BareBuffer arguments_;
  std::vector<kfdcp::Mapping> user_;
  std::vector<BareBuffer> places_;
  std::size_t pages_ = 0;
};

}  // namespace lab
