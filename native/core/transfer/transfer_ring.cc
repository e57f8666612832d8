#include "core/transfer/transfer_ring.h"

#include <string>
#include <utility>

#include "core/os/error.h"

namespace kfdcp {
namespace {

/// Runs `work`; an Error from it gets `subject()` in front.
template <class Subject, class Work>
decltype(auto) naming(Subject&& subject, Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code, subject() + ": " + error.what(), error.err);
  }
}

std::string name(const std::vector<std::shared_ptr<LiveBuffer>>& buffers) {
  const std::uint32_t first = buffers.front()->id;
  const std::uint32_t last = buffers.back()->id;
  if (first == last) return "buffer " + std::to_string(first);
  return "buffers " + std::to_string(first) + " to " + std::to_string(last);
}

}  // namespace

TransferRing::TransferRing(CopyEngine& engine) : engine_(engine) {
  for (std::size_t slot = 0; slot < engine.slots(); ++slot) free_.push_back(slot);
}

TransferRing::~TransferRing() {
  for (const Copy& copy : copies_) {
    if (!copy.in_flight) continue;
    try {
      engine_.wait(copy.slots.front());
    } catch (...) {
      // The job already fails. The first error is reported.
    }
  }
}

std::shared_ptr<LiveBuffer> TransferRing::open(std::uint32_t id, int dmabuf_fd, std::uint64_t size,
                                               std::optional<std::uint64_t> offset) {
  return naming([&] { return "buffer " + std::to_string(id); },
                [&] {
                  return std::make_shared<LiveBuffer>(
                      LiveBuffer{id, engine_.import(dmabuf_fd, size, offset)});
                });
}

std::size_t TransferRing::take() {
  const std::size_t slot = free_.front();
  free_.pop_front();
  return slot;
}

bool TransferRing::busy() const {
  std::size_t slots = 0;
  for (std::size_t i = 0; i < running(); ++i) slots += copies_[i].slots.size();
  return running() >= 2 && slots >= engine_.copy_slots();
}

void TransferRing::start(const std::function<void(const Copy&)>& how) {
  // Queued already: once the copy runs, nothing between here and its wait may throw.
  Copy& copy = copies_.back();
  copy.gathers = false;
  try {
    naming([&] { return name(copy.buffers); }, [&] { how(copy); });
  } catch (...) {
    copies_.pop_back();
    throw;
  }
  copy.in_flight = true;
}

void TransferRing::start_gathered() {
  start([&](const Copy& copy) {
    copy.kind == Kind::read ? engine_.start_read(copy.segments)
                            : engine_.start_write(copy.segments);
  });
}

void TransferRing::gather(Kind kind, std::size_t slot, std::vector<LiveSegment> segments) {
  if (gathering() && copies_.back().kind != kind) start_gathered();
  if (!gathering()) copies_.push_back({kind});
  Copy& copy = copies_.back();
  copy.slots.push_back(slot);
  for (LiveSegment& segment : segments) {
    copy.segments.push_back(
        {segment.buffer->device.get(), segment.offset, slot, segment.slot_offset, segment.bytes});
    copy.buffers.push_back(std::move(segment.buffer));
  }
  if (!busy() || copy.slots.size() >= engine_.copy_slots()) start_gathered();
}

void TransferRing::read(std::size_t slot, std::vector<LiveSegment> from) {
  gather(Kind::read, slot, std::move(from));
}

void TransferRing::write(std::size_t slot, std::vector<LiveSegment> to) {
  gather(Kind::write, slot, std::move(to));
}

void TransferRing::move(std::size_t slot, std::vector<LiveSegment> from,
                        std::span<const MoveTarget> to) {
  if (gathering()) start_gathered();
  std::vector<CopyMove> moves;
  moves.reserve(from.size());
  copies_.push_back({Kind::move, {slot}});
  for (std::size_t i = 0; i < from.size(); ++i) {
    moves.push_back(
        {from[i].buffer->device.get(), from[i].offset, to[i].buffer, to[i].offset, from[i].bytes});
    copies_.back().buffers.push_back(std::move(from[i].buffer));
  }
  start([&](const Copy&) { engine_.start_move(moves, slot); });
}

std::vector<std::size_t> TransferRing::wait() {
  if (running() == 0) start_gathered();
  Copy& copy = copies_.front();
  const auto begin = std::chrono::steady_clock::now();
  naming([&] { return name(copy.buffers); },
         [&] {
           copy.in_flight = false;  // a copy whose wait throws is over as well
           engine_.wait(copy.slots.front());
         });
  waited_ += std::chrono::steady_clock::now() - begin;
  std::vector<std::size_t> slots = std::move(copy.slots);
  copies_.pop_front();
  if (gathering() && !busy()) start_gathered();
  return slots;
}

}  // namespace kfdcp
