// A pages file into buffers: workers read, decode and verify, copies follow in the file's order.
#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "core/os/page_memory.h"
#include "core/os/stage.h"
#include "core/pages/frame_codec.h"
#include "core/pages/pages_chain.h"
#include "core/transfer/slot_workers.h"
#include "core/transfer/transfer_run.h"

namespace kfdcp {
namespace {

/// What a worker has of its own.
struct Decoder {
  FrameDecoder frames;
  Mapping room;  // for stored bytes
};

class Upload {
 public:
  Upload(CopyEngine& engine, std::size_t workers)
      : engine_(engine),
        loads_(engine.slots()),
        zeros_(engine.slots(), 0),
        decoders_(workers),
        times_(workers) {}

  void expect(std::size_t slot, Load load) { loads_[slot] = std::move(load); }
  const Load& load(std::size_t slot) const { return loads_[slot]; }

  /// Fills the slot; in thread `worker`.
  void work(std::size_t worker, std::size_t slot) {
    Decoder& mine = decoders_[worker];
    WorkerTimes& times = times_[worker];
    const Load& load = loads_[slot];
    const std::span<std::byte> memory = engine_.slot(slot);
    stage("transfer", "upload");
    if (load.kind == Load::Kind::zeros) return timed(times.code, [&] { zero(load, slot); });
    zeros_[slot] = 0;
    const std::span<std::byte> stored = timed(times.file, [&] { return read(mine, load, memory); });
    times.file_bytes += stored.size();
    timed(times.code, [&] {
      for (const Piece& piece : load.pieces) {
        const FrameEntry& frame = piece.frame;
        mine.frames.decode(frame, piece.index,
                           stored.subspan(frame.offset - load.begin, frame.stored),
                           memory.subspan(piece.slot_offset, piece.bytes));
        times.code_bytes += piece.bytes;
      }
    });
  }

  std::size_t workers() const { return times_.size(); }
  TransferStats stats() const {
    HashCost hash;
    for (const Decoder& decoder : decoders_) hash += decoder.frames.hash_cost();
    return sum_up(times_, hash);
  }

 private:
  /// Sparse buffers are common: what a slot has of zeros already is remembered.
  void zero(const Load& load, std::size_t slot) {
    std::size_t bytes = 0;
    for (const Piece& piece : load.pieces) bytes = std::max(bytes, piece.bytes);
    if (zeros_[slot] >= bytes) return;
    std::memset(engine_.slot(slot).data(), 0, bytes);
    zeros_[slot] = bytes;
  }

  /// The stored bytes of `load`, in `memory` if that is where they belong.
  std::span<std::byte> read(Decoder& mine, const Load& load, std::span<std::byte> memory) {
    const std::size_t bytes = load.end - load.begin;
    if (load.kind == Load::Kind::in_place) {
      load.file->read_range(load.begin, memory.first(bytes));
      return memory.first(bytes);
    }
    // Whole pages, if the file has them: they can be read without the page cache.
    if (mine.room.data() == nullptr) {
      mine.room = page_memory(engine_.slot_bytes() + 2 * kPageBytes);
    }
    const std::size_t before = load.begin % kPageBytes;
    const std::uint64_t begin = load.begin - before;
    std::size_t length = align_up(before + bytes, kPageBytes);
    if (length > load.file->summary().file_bytes - begin) length = before + bytes;
    load.file->read_range(begin, mine.room.bytes().first(length));
    return mine.room.bytes().subspan(before, bytes);
  }

  CopyEngine& engine_;
  std::vector<Load> loads_;         // by slot
  std::vector<std::size_t> zeros_;  // by slot: leading bytes known to be zero
  std::vector<Decoder> decoders_;   // by worker
  std::vector<WorkerTimes> times_;  // by worker
};

}  // namespace

TransferStats upload(CopyEngine& engine, const std::vector<ContentBuffer>& buffers,
                     const PagesReader& in, const TransferOptions& options, std::stop_token stop,
                     TransferProgress& progress, const FrameChain* chain) {
  const auto begin = Clock::now();
  const auto direct_bytes = [&] { return chain ? chain->direct_bytes() : in.direct_bytes(); };
  const std::uint64_t direct = direct_bytes();
  UploadPlan plan(buffers, in, engine.slot_bytes(), chain);
  Upload job(engine, std::clamp<std::size_t>(options.workers, 1, engine.slots()));
  SlotWorkers workers(job.workers(),
                      [&](std::size_t worker, std::size_t slot) { job.work(worker, slot); });
  TransferRing ring(engine);
  LoadBuffers open(ring);
  std::deque<std::size_t> order;  // slots with the workers, as handed out
  std::vector<bool> filled(engine.slots(), false);
  std::uint64_t bytes = 0;
  const auto copy_what_is_filled = [&] {
    while (!order.empty() && filled[order.front()]) {
      check_stop(stop);
      const std::size_t slot = order.front();
      order.pop_front();
      filled[slot] = false;
      ring.write(slot, open.open(job.load(slot)));
    }
    if (plan.done() && order.empty()) open.close();
  };
  for (;;) {
    while (const auto slot = workers.poll()) filled[*slot] = true;
    copy_what_is_filled();
    if (!plan.done() && ring.has_free()) {
      check_stop(stop);
      const std::size_t slot = ring.take();
      job.expect(slot, plan.next());
      order.push_back(slot);
      workers.hand(slot);
    } else if (ring.in_flight() > 1 || (ring.in_flight() == 1 && order.empty())) {
      check_stop(stop);
      for (const std::size_t slot : ring.wait()) {
        for (const Piece& piece : job.load(slot).pieces) bytes += piece.bytes;
        ring.give_back(slot);
      }
      progress.bytes_done.store(bytes, std::memory_order_relaxed);
    } else if (!order.empty()) {
      // With one copy in flight the next one is started before this one is waited for: the engine
      // is never idle while there is something to copy.
      filled[workers.wait()] = true;
    } else {
      break;
    }
  }
  TransferStats stats = job.stats();
  stats.bytes = bytes;
  stats.direct_bytes = direct_bytes() - direct;
  stats.copy_wait_us = microseconds(ring.waited());
  stats.work_wait_us = microseconds(workers.waited());
  stats.wall_us = microseconds(Clock::now() - begin);
  return stats;
}

}  // namespace kfdcp
