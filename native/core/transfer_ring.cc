#include "core/transfer_ring.h"

#include <string>
#include <utility>

#include "core/error.h"

namespace kfdcp {
namespace {

/// Runs `work`; an Error from it gets the id of the buffer in front.
template <class Work>
decltype(auto) naming(std::uint32_t id, Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code, "buffer " + std::to_string(id) + ": " + error.what(), error.err);
  }
}

}  // namespace

TransferRing::~TransferRing() {
  for (const Copy& copy : copies_) {
    if (!copy.in_flight) continue;
    try {
      engine_.wait(copy.slot);
    } catch (...) {
      // The job is failing already; what came first is reported.
    }
  }
}

std::shared_ptr<LiveBuffer> TransferRing::open(std::uint32_t id, int dmabuf_fd,
                                               std::uint64_t size) {
  return naming(id, [&] {
    return std::make_shared<LiveBuffer>(LiveBuffer{id, engine_.import(dmabuf_fd, size)});
  });
}

void TransferRing::start(Start how, std::shared_ptr<LiveBuffer> buffer, std::uint64_t offset,
                         std::size_t bytes) {
  // Queued first: once the copy runs, nothing between here and its wait may throw.
  copies_.push_back({std::move(buffer), tail_, bytes, false});
  Copy& copy = copies_.back();
  try {
    naming(copy.buffer->id,
           [&] { (engine_.*how)(*copy.buffer->device, offset, copy.slot, bytes); });
  } catch (...) {
    copies_.pop_back();
    throw;
  }
  copy.in_flight = true;
  tail_ = (tail_ + 1) % engine_.slots();
}

void TransferRing::read(std::shared_ptr<LiveBuffer> buffer, std::uint64_t offset,
                        std::size_t bytes) {
  start(&CopyEngine::start_read, std::move(buffer), offset, bytes);
}

void TransferRing::write(std::shared_ptr<LiveBuffer> buffer, std::uint64_t offset,
                         std::size_t bytes) {
  start(&CopyEngine::start_write, std::move(buffer), offset, bytes);
}

std::span<std::byte> TransferRing::wait() {
  Copy& copy = copies_.front();
  const auto begin = std::chrono::steady_clock::now();
  naming(copy.buffer->id, [&] {
    copy.in_flight = false;  // a copy whose wait throws is over as well
    engine_.wait(copy.slot);
  });
  waited_ += std::chrono::steady_clock::now() - begin;
  return engine_.slot(copy.slot).first(copy.bytes);
}

}  // namespace kfdcp
