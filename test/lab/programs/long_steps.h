// A dispatch by the kernel's own calls that only ends when the simulated GPU is told to hurry.
#pragma once

#include <chrono>
#include <string>

#include "bare_queue.h"
#include "held.h"

namespace lab {

/// --steps: it increments every word of a buffer once, page after page, at half a second a page,
/// with a completion signal. The module's step_percent makes it end.
class LongSteps : public Holding {
 public:
  /// Starts it. Throws Error{gpu}.
  LongSteps(const BareGpu& gpu, std::chrono::milliseconds limit);

  const char* name() const override { return "steps"; }
  /// Waits for its end; every word must have been incremented once. Throws Error{gpu} or
  /// Error{corrupt}.
  void check() override;
  /// "<pages done>/<pages>". Throws Error{corrupt} when a word was incremented more than once, or
  /// was left out before a later one.
  std::string progress() const;

 private:
  const std::chrono::milliseconds limit_;
  AqlQueue queue_;
  BareBuffer words_;   // GTT: the CPU can look at it while the GPU is at work
  BareBuffer extras_;  // arguments, then the completion signal
};

}  // namespace lab
