#include "test/copy/fake_engine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "test/os/memory_file.h"

namespace kfdcp::test {
namespace {

Mapping map_shared(int fd, std::size_t size, std::uint64_t offset) {
  void* base =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (base == MAP_FAILED) throw io_error("mmap of a memfd");
  return Mapping(base, size);
}

}  // namespace

class FakeEngine::Buffer final : public DeviceBuffer {
 public:
  Buffer(FakeEngine& engine, int fd, std::uint64_t size, std::uint64_t offset)
      : memory(map_shared(fd, size, offset)), engine_(engine) {
    engine_.most_live = std::max(engine_.most_live, ++engine_.live);
  }
  ~Buffer() override {
    --engine_.live;
    for (const auto& copy : engine_.copies_) {
      if (!copy) continue;
      for (const CopySegment& segment : copy->segments) {
        if (segment.buffer == this) engine_.breaches.push_back("buffer freed during a copy");
      }
      for (const CopyMove& move : copy->moves) {
        if (move.from == this || move.to == this) {
          engine_.breaches.push_back("buffer freed during a copy");
        }
      }
    }
  }
  Mapping memory;

 private:
  FakeEngine& engine_;
};

FakeEngine::FakeEngine(const EngineOptions& options, const Faults& faults)
    : options_(options),
      faults_(faults),
      staging_(options.slots * options.slot_bytes),
      copies_(options.slots) {}

FakeEngine::~FakeEngine() = default;

std::span<std::byte> FakeEngine::slot(std::size_t index) {
  return std::span(staging_).subspan(index * options_.slot_bytes, options_.slot_bytes);
}

std::size_t FakeEngine::in_flight() const {
  return static_cast<std::size_t>(
      std::count_if(copies_.begin(), copies_.end(), [](const auto& copy) { return bool(copy); }));
}

std::unique_ptr<DeviceBuffer> FakeEngine::import(int dmabuf_fd, std::uint64_t size,
                                                 std::optional<std::uint64_t> offset) {
  imported.push_back(size);
  if (faults_.import == imported.size() - 1) throw Error(ErrorCode::gpu, "fake import");
  return std::make_unique<Buffer>(*this, dmabuf_fd, size, offset.value_or(0));
}

std::optional<AllocatedBuffer> FakeEngine::allocate(std::uint64_t bytes) {
  if (bytes > spare_vram) return std::nullopt;
  spare_vram -= bytes;
  UniqueFd memory = memory_file(std::vector<std::byte>(bytes, std::byte{0xa5}));
  auto buffer = std::make_unique<Buffer>(*this, memory.get(), bytes, 0);
  return AllocatedBuffer{std::move(buffer), std::move(memory)};
}

std::span<std::byte> FakeEngine::device(const CopySegment& segment) const {
  return dynamic_cast<Buffer&>(*segment.buffer)
      .memory.bytes()
      .subspan(segment.offset, segment.bytes);
}

std::span<std::byte> FakeEngine::host(const CopySegment& segment) {
  return slot(segment.slot).subspan(segment.slot_offset, segment.bytes);
}

void FakeEngine::check(std::span<const CopySegment> segments, bool write) {
  if (segments.size() > kMaxSegments) breaches.push_back("segments");
  std::size_t used = 0;
  std::size_t bytes = 0;
  for (const CopySegment& segment : segments) {
    const auto& buffer = dynamic_cast<Buffer&>(*segment.buffer);
    if (segment.bytes == 0 || segment.slot_offset + segment.bytes > options_.slot_bytes ||
        segment.offset + segment.bytes > buffer.memory.size()) {
      breaches.push_back("copy out of bounds");
    }
    if (segment.slot_offset % 4096 != 0) breaches.push_back("copy not aligned");
    if (!write && segment.slot_offset < used) breaches.push_back("segments overlap");
    used = segment.slot_offset + segment.bytes;
    bytes += segment.bytes;
  }
  if (bytes > options_.slot_bytes) breaches.push_back("more bytes in flight than a slot has");
}

void FakeEngine::start(std::span<const CopySegment> segments, bool write) {
  std::vector<std::size_t> slots;
  for (std::size_t first = 0, end = 0; first < segments.size(); first = end) {
    slots.push_back(segments[first].slot);
    while (end < segments.size() && segments[end].slot == slots.back()) ++end;
    check(segments.subspan(first, end - first), write);
  }
  if (slots.empty() || slots.size() > slots_a_copy) breaches.push_back("slots");
  begin(slots, {{segments.begin(), segments.end()}, {}, write, false, false});
  // Before the end of a copy its destination holds other bytes.
  for (const CopySegment& segment : segments) {
    std::ranges::fill(write ? device(segment) : host(segment), std::byte{0xee});
  }
}

void FakeEngine::begin(const std::vector<std::size_t>& slots, Copy copy) {
  on_event();
  for (const std::size_t slot : slots) {
    if (copies_.at(slot)) breaches.push_back("slot started while busy");
  }
  const std::size_t number = starts++;
  if (faults_.start == number) throw Error(ErrorCode::gpu, "fake start");
  copy.fails = faults_.wait == number;
  const auto shared = std::make_shared<Copy>(std::move(copy));
  for (const std::size_t slot : slots) copies_[slot] = shared;
  most_slots = std::max(most_slots, slots.size());
  most_in_flight = std::max(most_in_flight, in_flight());
}

void FakeEngine::start_move(std::span<const CopyMove> moves, std::size_t slot) {
  if (moves.empty() || moves.size() > kMaxSegments) breaches.push_back("moves");
  std::uint64_t bytes = 0;
  for (const CopyMove& move : moves) {
    const auto outside = [&](DeviceBuffer* buffer, std::uint64_t offset) {
      return offset + move.bytes > dynamic_cast<Buffer&>(*buffer).memory.size();
    };
    if (move.bytes == 0 || outside(move.from, move.from_offset) ||
        outside(move.to, move.to_offset)) {
      breaches.push_back("move out of bounds");
    }
    bytes += move.bytes;
  }
  if (bytes > kMaxMoveBytes) breaches.push_back("a move of too many bytes");
  begin({slot}, {{}, {moves.begin(), moves.end()}, false, false, false});
}

void FakeEngine::start_read(std::span<const CopySegment> from) { start(from, false); }

void FakeEngine::start_write(std::span<const CopySegment> to) { start(to, true); }

void FakeEngine::perform(Copy& copy) {
  if (copy.done || copy.fails) return;
  for (const CopySegment& segment : copy.segments) {
    std::byte* memory = device(segment).data();
    std::byte* staged = host(segment).data();
    std::memcpy(copy.write ? memory : staged, copy.write ? staged : memory, segment.bytes);
  }
  for (const CopyMove& move : copy.moves) {
    const std::byte* from = dynamic_cast<Buffer&>(*move.from).memory.data() + move.from_offset;
    std::memcpy(dynamic_cast<Buffer&>(*move.to).memory.data() + move.to_offset, from, move.bytes);
  }
  copy.done = true;
}

void FakeEngine::wait(std::size_t slot) {
  on_event();
  for (std::size_t other = options_.slots; other-- > 0;) {
    if (copies_[other] && random_() % 3 == 0) perform(*copies_[other]);
  }
  const std::shared_ptr<Copy> copy = copies_.at(slot);
  if (!copy) {
    breaches.push_back("wait for an idle slot");
    return;
  }
  perform(*copy);
  for (auto& other : copies_) {
    if (other == copy) other.reset();
  }
  if (copy->fails) throw Error(ErrorCode::gpu, "fake wait");
}

}  // namespace kfdcp::test
