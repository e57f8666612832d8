// gpu-worker: everything one run holds, and the answers to its commands.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "changing.h"
#include "core/os/fd.h"
#include "counter.h"
#include "dispatch.h"
#include "dma.h"
#include "holding.h"
#include "mailbox.h"
#include "options.h"
#include "queue.h"
#include "share.h"
#include "waiter.h"

namespace lab {

/// The state of one run. Members are destroyed in reverse order, the runtime last.
class Worker {
 public:
  /// Sets everything up and checks one read-back. Throws Error.
  /// `peer` is needed for `share`, and must outlive this.
  Worker(const Options& options, const Peer* peer);

  /// The line that says the worker holds everything.
  std::string ready_line() const;
  /// The reply to one command. Throws Error, which is a reply too.
  std::string answer(const Command& command);
  /// Steps the counter when `step_every` has passed in ticks. A step that failed is remembered,
  /// ends the stepping and fails every later answer.
  void tick(std::chrono::milliseconds passed);

 private:
  std::string verify();
  std::string counter_text() const;

  const Options options_;
  Runtime runtime_;
  Pattern pattern_;
  Dma dma_;
  VramBuffers vram_;
  kfdcp::Mapping host_memory_;
  std::optional<ChangingBuffer> changing_;
  Counter counter_;
  std::optional<PendingBarrier> barrier_;
  std::optional<EventWaiter> waiter_;
  std::optional<LongDispatch> dispatch_;
  std::vector<std::unique_ptr<Holding>> held_;
  std::chrono::milliseconds since_step_{0};
  std::string step_failure_;
};

}  // namespace lab
