// Common parts of drains and uploads: a ring, workers for its slots, and timings.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/os/error.h"
#include "core/pages/frame_codec.h"
#include "core/transfer/slot_workers.h"
#include "core/transfer/transfer.h"
#include "core/transfer/transfer_plan.h"
#include "core/transfer/transfer_ring.h"

namespace kfdcp {

using Clock = std::chrono::steady_clock;

inline std::uint64_t microseconds(Clock::duration time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

inline void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "content transfer: cancelled");
}

/// One worker's account; on a cache line of its own.
struct alignas(64) WorkerTimes {
  Clock::duration file{0};
  Clock::duration code{0};
  Clock::duration turn{0};
  std::uint64_t file_bytes = 0;
  std::uint64_t code_bytes = 0;
};

/// Runs `work` and adds the time it took to `sum`.
template <class Work>
decltype(auto) timed(Clock::duration& sum, Work&& work) {
  struct Sum {
    Clock::duration& sum;
    Clock::time_point begin = Clock::now();
    ~Sum() { sum += Clock::now() - begin; }
  } const account{sum};
  return work();
}

/// The account of a job whose workers are done. `hash`: of all of them.
TransferStats sum_up(const std::vector<WorkerTimes>& times, const HashCost& hash);

/// Opens the buffers of one load after the other. A buffer is held open until the next one comes.
class LoadBuffers {
 public:
  explicit LoadBuffers(TransferRing& ring) : ring_(ring) {}
  std::vector<LiveSegment> open(const Load& load);
  /// After the last load.
  void close() { live_.reset(); }

 private:
  TransferRing& ring_;
  const ContentBuffer* last_ = nullptr;
  std::shared_ptr<LiveBuffer> live_;
};

/// Reads all of `buffers` into slots, as far ahead as there are any, and hands each to `workers`;
/// `expect` gets its future content first. Throws errors of copies and workers.
void read_ahead(const std::vector<ContentBuffer>& buffers, std::size_t slot_bytes,
                TransferRing& ring, SlotWorkers& workers, const std::stop_token& stop,
                const std::function<void(std::size_t, Load)>& expect);

}  // namespace kfdcp
