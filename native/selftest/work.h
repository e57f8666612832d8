// Work of the GPU: a stream without an end, a barrier that waits, an event that a thread sleeps
// for.
#pragma once

#include <linux/kfd_ioctl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "selftest/buffer.h"
#include "selftest/part.h"
#include "selftest/queue.h"

namespace kfdcp::selftest {

/// Rounds of SDMA packets, one behind the other: a copy, a counter in VRAM that goes up by 1, and a
/// fence with the number of the round.
class Stream : public Part {
 public:
  explicit Stream(Gpu& gpu);

  std::string name() const override { return "sdma"; }
  /// Waits for all rounds that were given: each must have run once.
  void verify() override;
  /// Gives the GPU rounds up to a fixed number in advance. To be called every few milliseconds.
  void feed();
  /// Rounds that are done.
  std::uint32_t rounds() const { return load(progress_.word(0)); }
  /// Whether the GPU has some that are not.
  bool busy() const { return rounds() != given_; }

 private:
  SdmaQueue queue_;
  Buffer from_, counter_, to_, progress_;
  std::uint32_t given_ = 0;
};

/// An AQL queue with a barrier that waits for a signal.
class Barrier : public Part {
 public:
  explicit Barrier(Gpu& gpu);

  std::string name() const override { return "aql"; }
  /// It must still wait. Then the signal comes, the barrier must complete, and another one waits.
  void verify() override;

 private:
  Signal& signal(std::size_t index) const;
  std::uint64_t address(std::size_t index) const;
  void arm();

  Buffer signals_;
  AqlQueue queue_;
};

/// A thread that sleeps in the kernel until the GPU raises an event. A process has at most one: the
/// first event brings the page of all.
class Sleeper : public Part {
 public:
  explicit Sleeper(Gpu& gpu);
  ~Sleeper() override;

  std::string name() const override { return "events"; }
  /// The thread must still sleep. Then the GPU raises the event, and it must wake up.
  void verify() override;

 private:
  void sleep();

  Gpu& gpu_;
  Buffer page_;
  SdmaQueue queue_;
  std::uint32_t event_ = 0;
  std::atomic<int> result_{-1};  // KFD_IOC_WAIT_RESULT_*, or -1: it sleeps
  std::thread thread_;
};

}  // namespace kfdcp::selftest
