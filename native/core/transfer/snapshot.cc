#include "core/transfer/snapshot.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/os/error.h"
#include "core/os/file_io.h"
#include "core/os/page_memory.h"
#include "core/transfer/slot_workers.h"
#include "core/transfer/transfer_plan.h"
#include "core/transfer/transfer_ring.h"
#include "core/transfer/transfer_run.h"

namespace kfdcp {
namespace {

// The kernel evicts whole BOs when an application needs the VRAM.
constexpr std::uint64_t kMostVramBytes = 256u << 20;
// More than any real size, and sums of it do not overflow an off_t.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

void wait_for_one(TransferRing& ring) {
  for (const std::size_t slot : ring.wait()) ring.give_back(slot);
}

}  // namespace

SnapshotPlan plan_snapshot(const std::vector<ContentBuffer>& buffers, std::uint64_t most) {
  SnapshotPlan plan;
  std::uint64_t sum = 0;
  for (const ContentBuffer& buffer : buffers) {
    if (buffer.size == 0 || buffer.size > kMostBytes ||
        align_up(buffer.size, kPageBytes) > kMostBytes - sum) {
      throw Error(ErrorCode::protocol, "buffer " + std::to_string(buffer.id) + ": has " +
                                           std::to_string(buffer.size) + " bytes");
    }
    const std::uint64_t bytes = align_up(buffer.size, kPageBytes);
    sum += bytes;
    if (plan.memory.empty() || bytes > most || plan.memory.back() > most - bytes) {
      plan.memory.push_back(0);
    }
    plan.places.push_back({plan.memory.size() - 1, plan.memory.back()});
    plan.memory.back() += bytes;
  }
  return plan;
}

std::optional<Snapshot> snapshot_to_vram(CopyEngine& engine,
                                         const std::vector<ContentBuffer>& buffers,
                                         const std::stop_token& stop) {
  SnapshotPlan plan = plan_snapshot(buffers, kMostVramBytes);
  std::vector<AllocatedBuffer> memory;
  for (const std::uint64_t bytes : plan.memory) {
    std::optional<AllocatedBuffer> part = engine.allocate(bytes);
    if (!part) return std::nullopt;
    memory.push_back(std::move(*part));
  }
  {
    DrainPlan loads(buffers, kMaxMoveBytes);
    TransferRing ring(engine);
    LoadBuffers open(ring);
    while (!loads.done()) {
      check_stop(stop);
      if (!ring.has_free()) wait_for_one(ring);
      const Load load = loads.next();
      std::vector<MoveTarget> targets;
      for (const Piece& piece : load.pieces) {
        const auto index = static_cast<std::size_t>(piece.buffer - buffers.data());
        const SnapshotPlace& place = plan.places[index];
        targets.push_back({memory[place.memory].buffer.get(), place.offset + piece.offset});
      }
      ring.move(ring.take(), open.open(load), targets);
    }
    open.close();
    while (ring.in_flight() > 0) wait_for_one(ring);
  }
  Snapshot snapshot;
  for (AllocatedBuffer& part : memory) snapshot.memory.push_back(std::move(part.dmabuf));
  snapshot.places = std::move(plan.places);
  return snapshot;
}

Snapshot snapshot_to_host(CopyEngine& engine, const std::vector<ContentBuffer>& buffers,
                          const TransferOptions& options, const std::stop_token& stop) {
  SnapshotPlan plan = plan_snapshot(buffers, kMostBytes);
  Snapshot snapshot;
  snapshot.memory.emplace_back(::memfd_create("gpu-contents", MFD_CLOEXEC));
  const int file = snapshot.memory.front().get();
  if (file == -1) throw io_error("memfd_create");
  std::vector<Load> loads(engine.slots());
  const auto copy_out = [&](std::size_t, std::size_t slot) {
    for (const Piece& piece : loads[slot].pieces) {
      const auto index = static_cast<std::size_t>(piece.buffer - buffers.data());
      iovec part = write_part(engine.slot(slot).subspan(piece.slot_offset, piece.bytes));
      write_exactly(file, {&part, 1}, plan.places[index].offset + piece.offset, "host memory");
    }
  };
  SlotWorkers workers(std::clamp<std::size_t>(options.workers, 1, engine.slots()), copy_out);
  TransferRing ring(engine);
  read_ahead(buffers, engine.slot_bytes(), ring, workers, stop,
             [&](std::size_t slot, Load load) { loads[slot] = std::move(load); });
  snapshot.places = std::move(plan.places);
  return snapshot;
}

}  // namespace kfdcp
