// A compute dispatch that takes its time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "queue.h"
#include "runtime.h"

namespace lab {

/// A dispatch that increments every word of a buffer, page after page, so that a checkpoint falls
/// into its middle. The words tell whether any page was done twice or not at all. It is a
/// micro-operation of the simulated GPU: no other can run it.
class LongDispatch {
 public:
  /// Starts the first one. `total` is the time it has on the GPU. Throws Error{gpu}.
  LongDispatch(const Runtime& runtime, std::chrono::milliseconds total);

  /// "<pages done>/<pages>" of the running dispatch. Throws Error{corrupt} when a word is neither
  /// what it was before nor one more, or is behind a later one.
  std::string progress() const;
  /// Waits for the end of the dispatch, checks every word and starts the next one. Throws Error{gpu}
  /// when it takes longer than `limit`, and what progress() throws.
  void finish(std::chrono::milliseconds limit);

 private:
  void start();
  /// How many words, the first ones, have been incremented. Throws Error{corrupt}.
  std::size_t words_done() const;

  ComputeQueue queue_;
  PoolBuffer program_;  // kernel object, then arguments
  PoolBuffer words_;
  Signal completion_{1};
  std::uint32_t step_us_;
  std::uint32_t round_ = 0;  // what the words are to be at the end of the running dispatch
};

}  // namespace lab
