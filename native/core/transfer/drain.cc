// Buffers into a pages file: copies run ahead, workers encode and write, frames get their places in
// order.
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "core/os/page_memory.h"
#include "core/os/stage.h"
#include "core/pages/frame_codec.h"
#include "core/transfer/slot_workers.h"
#include "core/transfer/transfer_run.h"

namespace kfdcp {
namespace {

/// Lets workers through one after the other, in the order of the loads.
class Turnstile {
 public:
  /// Waits until `turn` is next. Throws the error it was closed with.
  void enter(std::uint64_t turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reason_ || next_ == turn; });
    if (reason_) std::rethrow_exception(reason_);
  }
  void leave() {
    {
      const std::lock_guard lock(mutex_);
      ++next_;
    }
    changed_.notify_all();
  }
  /// The turns of others will never come, for the first `reason` given.
  void close(std::exception_ptr reason) {
    {
      const std::lock_guard lock(mutex_);
      if (!reason_) reason_ = std::move(reason);
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;
  std::exception_ptr reason_;
};

/// What a worker has of its own.
struct Encoder {
  std::unique_ptr<FrameEncoder> frames;
  Mapping room;  // for the stored bytes of several frames
  std::vector<EncodedFrame> encoded;
  std::vector<PlacedFrame> placed;
};

class Drain {
 public:
  Drain(CopyEngine& engine, PagesWriter& out, std::size_t workers, TransferProgress& progress)
      : engine_(engine),
        out_(out),
        progress_(progress),
        loads_(engine.slots()),
        turns_(engine.slots()),
        encoders_(workers),
        times_(workers) {
    for (Encoder& encoder : encoders_) encoder.frames = out.make_encoder();
  }

  void expect(std::size_t slot, Load load) {
    loads_[slot] = std::move(load);
    turns_[slot] = turn_++;
  }

  /// Encodes and writes the content of the slot, in thread `worker`.
  void work(std::size_t worker, std::size_t slot) {
    try {
      Encoder& mine = encoders_[worker];
      WorkerTimes& times = times_[worker];
      const Load& load = loads_[slot];
      timed(times.code, [&] { encode(mine, load, slot); });
      timed(times.turn, [&] { turnstile_.enter(turns_[slot]); });
      place(mine, load);
      turnstile_.leave();
      timed(times.file, [&] { out_.write(mine.placed, mine.encoded); });
      stage("transfer", "drain");
      for (const Piece& piece : load.pieces) {
        times.code_bytes += piece.bytes;
        progress_.bytes_done.fetch_add(piece.bytes, std::memory_order_relaxed);
      }
      for (std::size_t i = 0; i < mine.placed.size(); ++i) {
        if (mine.placed[i].is_new) times.file_bytes += mine.encoded[i].stored.size();
      }
    } catch (...) {
      turnstile_.close(std::current_exception());
      throw;
    }
  }

  /// To be called in a handler: workers need not wait for their turns any more.
  void give_up() { turnstile_.close(std::current_exception()); }
  std::size_t workers() const { return times_.size(); }
  TransferStats stats() const {
    HashCost hash;
    for (const Encoder& encoder : encoders_) hash += encoder.frames->hash_cost();
    return sum_up(times_, hash);
  }

 private:
  void encode(Encoder& mine, const Load& load, std::size_t slot) {
    mine.encoded.clear();
    std::size_t used = 0;
    for (const Piece& piece : load.pieces) {
      const auto content = engine_.slot(slot).subspan(piece.slot_offset, piece.bytes);
      EncodedFrame frame = mine.frames->encode(content);
      // The encoder's bytes are valid until its next frame.
      if (load.pieces.size() > 1 && frame.stored.data() != content.data()) {
        if (mine.room.data() == nullptr) mine.room = page_memory(engine_.slot_bytes());
        const auto kept = mine.room.bytes().subspan(used, frame.stored.size());
        std::ranges::copy(frame.stored, kept.begin());
        frame.stored = kept;
        used += kept.size();
      }
      mine.encoded.push_back(frame);
    }
  }

  void place(Encoder& mine, const Load& load) {
    mine.placed.clear();
    for (std::size_t i = 0; i < load.pieces.size(); ++i) {
      const Piece& piece = load.pieces[i];
      if (piece.offset == 0) out_.begin_buffer(piece.buffer->id, piece.buffer->size);
      mine.placed.push_back(out_.place(piece.bytes, mine.encoded[i]));
    }
  }

  CopyEngine& engine_;
  PagesWriter& out_;
  TransferProgress& progress_;
  std::vector<Load> loads_;           // by slot
  std::vector<std::uint64_t> turns_;  // by slot
  std::uint64_t turn_ = 0;
  Turnstile turnstile_;
  std::vector<Encoder> encoders_;   // by worker
  std::vector<WorkerTimes> times_;  // by worker
};

}  // namespace

TransferStats drain(CopyEngine& engine, const std::vector<ContentBuffer>& buffers, PagesWriter& out,
                    const TransferOptions& options, std::stop_token stop,
                    TransferProgress& progress) {
  const auto begin = Clock::now();
  Drain job(engine, out, std::clamp<std::size_t>(options.workers, 1, engine.slots()), progress);
  SlotWorkers workers(job.workers(),
                      [&](std::size_t worker, std::size_t slot) { job.work(worker, slot); });
  TransferRing ring(engine);
  try {
    read_ahead(buffers, engine.slot_bytes(), ring, workers, stop,
               [&](std::size_t slot, Load load) { job.expect(slot, std::move(load)); });
  } catch (...) {
    job.give_up();
    throw;
  }
  TransferStats stats = job.stats();
  stats.bytes = stats.code.bytes;
  stats.direct_bytes = out.direct_bytes();
  stats.copy_wait_us = microseconds(ring.waited());
  stats.work_wait_us = microseconds(workers.waited());
  stats.wall_us = microseconds(Clock::now() - begin);
  return stats;
}

}  // namespace kfdcp
