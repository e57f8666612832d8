#include "core/pages/gathered_frames.h"

#include <array>
#include <cstring>

#include "core/os/file_io.h"
#include "core/os/page_memory.h"
#include "core/pages/pages_encode.h"
#include "core/pages/pages_layout.h"

namespace kfdcp {

namespace {

constexpr std::array<std::byte, layout::kRawAlignment> kZeros{};

}  // namespace

void GatheredFrames::add(const PlacedFrame& placed, std::span<const std::byte> stored) {
  const FrameEntry& entry = placed.entry;
  if (pages_.data() == nullptr) pages_ = page_memory(kMostFrames * layout::kRawAlignment);
  if (empty()) begin_ = placed.begin;
  const std::span<std::byte> page =
      pages_.bytes().subspan(frames_++ * layout::kRawAlignment, entry.offset - placed.begin);
  const layout::FrameRecord record = layout::make_record(entry);
  std::memcpy(page.data(), &record, sizeof(record));
  std::memset(page.data() + sizeof(record), 0, page.size() - sizeof(record));
  parts_.push_back(write_part(page));
  parts_.push_back(write_part(stored));
  end_ = layout::end_of(entry);
  const std::size_t tail = end_ - entry.offset - entry.stored;
  if (tail > 0) parts_.push_back(write_part(std::span(kZeros).first(tail)));
}

}  // namespace kfdcp
