#include "core/transfer.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/transfer_ring.h"

namespace kfdcp {
namespace {

using std::chrono::nanoseconds;

/// Runs `work` and adds the time it took to `sum`.
template <class Work>
void timed(nanoseconds& sum, Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  sum += std::chrono::steady_clock::now() - begin;
}

std::uint64_t microseconds(nanoseconds time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "content transfer: cancelled");
}

/// Starts the reads of all buffers in order, as far ahead as the ring has room.
class ReadAhead {
 public:
  ReadAhead(TransferRing& ring, const std::vector<ContentBuffer>& buffers, std::size_t frame)
      : ring_(ring), next_(buffers.begin()), end_(buffers.end()), frame_(frame) {}

  void fill() {
    while (next_ != end_ && !ring_.full()) {
      start_one();
      if (offset_ < next_->size) continue;
      live_.reset();
      offset_ = 0;
      ++next_;
    }
  }

 private:
  void start_one() {
    if (!live_) live_ = ring_.open(next_->id, next_->dmabuf.get(), next_->size);
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(next_->size - offset_, frame_));
    ring_.read(live_, offset_, bytes);
    offset_ += bytes;
  }

  TransferRing& ring_;
  std::vector<ContentBuffer>::const_iterator next_;
  std::vector<ContentBuffer>::const_iterator end_;
  std::size_t frame_;
  std::uint64_t offset_ = 0;
  std::shared_ptr<LiveBuffer> live_;
};

/// A buffer to fill and where its content is.
struct Target {
  const ContentBuffer* buffer;
  const BufferEntry* content;
};

/// Pairs every buffer with its content, in the order of the file, so that it is read front to back.
std::vector<Target> targets(const std::vector<ContentBuffer>& buffers, const PagesReader& in) {
  std::unordered_map<std::uint32_t, const BufferEntry*> by_id;
  for (const BufferEntry& entry : in.buffers()) by_id.emplace(entry.id, &entry);
  std::vector<Target> pairs;
  pairs.reserve(buffers.size());
  for (const ContentBuffer& buffer : buffers) {
    const auto found = by_id.find(buffer.id);
    if (found == by_id.end()) {
      throw Error(ErrorCode::corrupt,
                  "buffer " + std::to_string(buffer.id) + ": the pages file lacks it");
    }
    if (found->second->size != buffer.size) {
      throw Error(ErrorCode::corrupt, "buffer " + std::to_string(buffer.id) +
                                          ": the pages file holds " +
                                          std::to_string(found->second->size) +
                                          " bytes, the buffer has " + std::to_string(buffer.size));
    }
    pairs.push_back({&buffer, found->second});
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Target& a, const Target& b) {
    return a.content->first_frame < b.content->first_frame;
  });
  return pairs;
}

/// Reads frames into slots, and remembers which slots are zero already: sparse buffers are common.
class FrameSource {
 public:
  FrameSource(const PagesReader& in, CopyEngine& engine)
      : in_(in), engine_(engine), zeros_(engine.slots(), 0) {}

  /// Puts frame `index` into `slot`; returns its length.
  std::size_t load(std::uint64_t index, std::size_t slot) {
    const FrameEntry frame = in_.frame(index);
    const bool zero = frame.codec == Codec::zero;
    if (zero && zeros_[slot] >= frame.raw) return frame.raw;
    zeros_[slot] = 0;
    in_.read_frame(index, engine_.slot(slot).first(frame.raw));
    if (zero) zeros_[slot] = frame.raw;
    return frame.raw;
  }

 private:
  const PagesReader& in_;
  CopyEngine& engine_;
  std::vector<std::size_t> zeros_;  // leading bytes of each slot known to be zero
};

}  // namespace

TransferStats drain(CopyEngine& engine, const std::vector<ContentBuffer>& buffers, PagesWriter& out,
                    std::stop_token stop, TransferProgress& progress) {
  TransferStats stats;
  nanoseconds file{0};
  TransferRing ring(engine);
  ReadAhead ahead(ring, buffers, engine.slot_bytes());
  for (const ContentBuffer& buffer : buffers) {
    check_stop(stop);
    timed(file, [&] { out.begin_buffer(buffer.id, buffer.size); });
    for (std::uint64_t left = buffer.size; left > 0;) {
      check_stop(stop);
      ahead.fill();
      const std::span<const std::byte> content = ring.wait();
      timed(file, [&] { out.append(content); });
      ring.pop();
      left -= content.size();
      stats.bytes += content.size();
      progress.bytes_done.fetch_add(content.size(), std::memory_order_relaxed);
    }
  }
  stats.file_us = microseconds(file);
  stats.copy_us = microseconds(ring.waited());
  return stats;
}

TransferStats upload(CopyEngine& engine, const std::vector<ContentBuffer>& buffers,
                     const PagesReader& in, std::stop_token stop, TransferProgress& progress) {
  if (in.options().frame_bytes > engine.slot_bytes()) {
    throw Error(ErrorCode::unsupported, "frames of " + std::to_string(in.options().frame_bytes) +
                                            " bytes do not fit in slots of " +
                                            std::to_string(engine.slot_bytes()));
  }
  TransferStats stats;
  nanoseconds file{0};
  FrameSource source(in, engine);
  TransferRing ring(engine);
  const auto retire = [&] {
    const std::size_t bytes = ring.wait().size();
    ring.pop();
    stats.bytes += bytes;
    progress.bytes_done.fetch_add(bytes, std::memory_order_relaxed);
  };
  for (const auto& [buffer, content] : targets(buffers, in)) {
    std::shared_ptr<LiveBuffer> live;
    std::uint64_t offset = 0;
    for (std::uint64_t n = 0; n < content->frames; ++n) {
      check_stop(stop);
      if (ring.full()) retire();
      std::size_t bytes = 0;
      timed(file, [&] { bytes = source.load(content->first_frame + n, ring.tail()); });
      if (!live) live = ring.open(buffer->id, buffer->dmabuf.get(), buffer->size);
      ring.write(live, offset, bytes);
      offset += bytes;
    }
  }
  while (!ring.empty()) {
    check_stop(stop);
    retire();
  }
  stats.file_us = microseconds(file);
  stats.copy_us = microseconds(ring.waited());
  return stats;
}

}  // namespace kfdcp
