#include "core/transfer/transfer_run.h"

#include <utility>

namespace kfdcp {

TransferStats sum_up(const std::vector<WorkerTimes>& times, const HashCost& hash) {
  WorkerTimes sum;
  for (const WorkerTimes& one : times) {
    sum.file += one.file;
    sum.code += one.code;
    sum.turn += one.turn;
    sum.file_bytes += one.file_bytes;
    sum.code_bytes += one.code_bytes;
  }
  TransferStats stats;
  stats.workers = times.size();
  stats.file = {sum.file_bytes, microseconds(sum.file)};
  stats.code = {sum.code_bytes, microseconds(sum.code)};
  stats.hash = {hash.bytes, microseconds(hash.time)};
  stats.turn_wait_us = microseconds(sum.turn);
  return stats;
}

std::vector<LiveSegment> LoadBuffers::open(const Load& load) {
  std::vector<LiveSegment> segments;
  segments.reserve(load.pieces.size());
  for (const Piece& piece : load.pieces) {
    if (piece.buffer != last_) {
      live_.reset();
      const ContentBuffer& buffer = *piece.buffer;
      live_ = ring_.open(buffer.id, buffer.dmabuf.get(), buffer.size, buffer.offset);
      last_ = piece.buffer;
    }
    segments.push_back({live_, piece.offset, piece.slot_offset, piece.bytes});
  }
  return segments;
}

void read_ahead(const std::vector<ContentBuffer>& buffers, std::size_t slot_bytes,
                TransferRing& ring, SlotWorkers& workers, const std::stop_token& stop,
                const std::function<void(std::size_t, Load)>& expect) {
  DrainPlan plan(buffers, slot_bytes);
  LoadBuffers open(ring);
  for (;;) {
    while (const auto slot = workers.poll()) ring.give_back(*slot);
    if (!plan.done() && ring.has_free()) {
      check_stop(stop);
      const std::size_t slot = ring.take();
      Load load = plan.next();
      ring.read(slot, open.open(load));
      expect(slot, std::move(load));
      if (plan.done()) open.close();
    } else if (ring.in_flight() > 0 &&
               (plan.done() || ring.in_flight() > 1 || workers.busy() == 0)) {
      check_stop(stop);
      for (const std::size_t slot : ring.wait()) workers.hand(slot);
    } else if (workers.busy() > 0) {
      // With one copy in flight the next one is started before this one is waited for: the
      // engine is never idle while there is a slot.
      ring.give_back(workers.wait());
    } else {
      break;
    }
  }
}

}  // namespace kfdcp
