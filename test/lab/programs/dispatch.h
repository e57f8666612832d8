// A compute dispatch that takes its time.
#pragma once

#include <chrono>
#include <string>

#include "queue.h"
#include "runtime.h"

namespace lab {

/// A dispatch that increments every word of a buffer once, page after page, and takes so long that
/// whatever happens to the program falls into its middle. The words tell whether a page was done
/// twice or left out. It is a micro-operation of the simulated GPU: no other can run it.
class LongDispatch {
 public:
  /// Starts it. `total` is the time it has on the GPU. Throws Error{gpu}.
  LongDispatch(const Runtime& runtime, std::chrono::milliseconds total);

  /// "<pages done>/<pages>". Throws Error{corrupt} when a word was incremented more than once, or
  /// was left out before a later one.
  std::string progress() const;

 private:
  ComputeQueue queue_;
  PoolBuffer program_;  // kernel object, then arguments
  PoolBuffer words_;
  Signal completion_{1};
};

}  // namespace lab
