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

std::string name(const std::vector<LiveSegment>& segments) {
  const std::uint32_t first = segments.front().buffer->id;
  const std::uint32_t last = segments.back().buffer->id;
  if (first == last) return "buffer " + std::to_string(first);
  return "buffers " + std::to_string(first) + " to " + std::to_string(last);
}

std::vector<CopySegment> without_owners(const std::vector<LiveSegment>& segments) {
  std::vector<CopySegment> plain;
  plain.reserve(segments.size());
  for (const LiveSegment& segment : segments) {
    plain.push_back(
        {segment.buffer->device.get(), segment.offset, segment.slot_offset, segment.bytes});
  }
  return plain;
}

}  // namespace

TransferRing::TransferRing(CopyEngine& engine) : engine_(engine) {
  for (std::size_t slot = 0; slot < engine.slots(); ++slot) free_.push_back(slot);
}

TransferRing::~TransferRing() {
  for (const Copy& copy : copies_) {
    if (!copy.in_flight) continue;
    try {
      engine_.wait(copy.slot);
    } catch (...) {
      // The job already fails. The first error is reported.
    }
  }
}

std::shared_ptr<LiveBuffer> TransferRing::open(std::uint32_t id, int dmabuf_fd, std::uint64_t size,
                                               std::uint64_t offset) {
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

void TransferRing::start(std::size_t slot, std::vector<LiveSegment> segments,
                         const std::function<void()>& how) {
  // Queued first: once the copy runs, nothing between here and its wait may throw.
  copies_.push_back({slot, std::move(segments), false});
  Copy& copy = copies_.back();
  try {
    naming([&] { return name(copy.segments); }, how);
  } catch (...) {
    copies_.pop_back();
    throw;
  }
  copy.in_flight = true;
}

void TransferRing::read(std::size_t slot, std::vector<LiveSegment> from) {
  const std::vector<CopySegment> plain = without_owners(from);
  start(slot, std::move(from), [&] { engine_.start_read(plain, slot); });
}

void TransferRing::write(std::size_t slot, std::vector<LiveSegment> to) {
  const std::vector<CopySegment> plain = without_owners(to);
  start(slot, std::move(to), [&] { engine_.start_write(plain, slot); });
}

void TransferRing::move(std::size_t slot, std::vector<LiveSegment> from,
                        std::span<const MoveTarget> to) {
  std::vector<CopyMove> moves;
  moves.reserve(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    moves.push_back(
        {from[i].buffer->device.get(), from[i].offset, to[i].buffer, to[i].offset, from[i].bytes});
  }
  start(slot, std::move(from), [&] { engine_.start_move(moves, slot); });
}

std::size_t TransferRing::wait() {
  Copy& copy = copies_.front();
  const auto begin = std::chrono::steady_clock::now();
  naming([&] { return name(copy.segments); },
         [&] {
           copy.in_flight = false;  // a copy whose wait throws is over as well
           engine_.wait(copy.slot);
         });
  waited_ += std::chrono::steady_clock::now() - begin;
  const std::size_t slot = copy.slot;
  copies_.pop_front();
  return slot;
}

}  // namespace kfdcp
