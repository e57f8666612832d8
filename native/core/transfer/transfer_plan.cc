#include "core/transfer/transfer_plan.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "core/os/error.h"
#include "core/os/page_memory.h"
#include "core/pages/pages_chain.h"

namespace kfdcp {
namespace {

// Frames that are further apart in the file are read one by one. Records and padding between
// neighbours are smaller.
constexpr std::uint64_t kMaxGap = 2 * kPageBytes;

Error wrong(ErrorCode code, const ContentBuffer& buffer, const std::string& reason) {
  return Error(code, "buffer " + std::to_string(buffer.id) + ": " + reason);
}

}  // namespace

DrainPlan::DrainPlan(const std::vector<ContentBuffer>& buffers, std::size_t slot_bytes)
    : next_(buffers.begin()), end_(buffers.end()), slot_bytes_(slot_bytes) {
  for (const ContentBuffer& buffer : buffers) {
    if (buffer.size == 0) throw wrong(ErrorCode::protocol, buffer, "empty");
  }
}

Load DrainPlan::next() {
  Load load;
  std::size_t used = 0;
  while (next_ != end_ && load.pieces.size() < kMaxSegments) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(next_->size - offset_, slot_bytes_));
    if (bytes > slot_bytes_ - used) break;
    load.pieces.push_back({&*next_, offset_, used, bytes});
    used = std::min<std::size_t>(slot_bytes_, align_up(used + bytes, kPageBytes));
    offset_ += bytes;
    if (offset_ < next_->size) continue;
    offset_ = 0;
    ++next_;
  }
  return load;
}

UploadPlan::UploadPlan(const std::vector<ContentBuffer>& buffers, const PagesReader& in,
                       std::size_t slot_bytes, const FrameChain* chain)
    : in_(in), chain_(chain), slot_bytes_(slot_bytes) {
  const std::uint32_t frame_bytes = in.options().frame_bytes;
  if (frame_bytes > slot_bytes) {
    throw Error(ErrorCode::unsupported, "frames of " + std::to_string(frame_bytes) +
                                            " bytes do not fit in slots of " +
                                            std::to_string(slot_bytes));
  }
  if (in.summary().references > 0 && !(chain && chain->files() > 1)) {
    throw Error(ErrorCode::unsupported, "pages file: some of its contents are in the parent image");
  }
  if (in.summary().siblings > 0 && !chain) {
    throw Error(ErrorCode::unsupported,
                "pages file: some of its contents are in other files of the image");
  }
  std::unordered_map<std::uint32_t, const BufferEntry*> by_id;
  for (const BufferEntry& entry : in.buffers()) by_id.emplace(entry.id, &entry);
  targets_.reserve(buffers.size());
  for (const ContentBuffer& buffer : buffers) {
    const auto found = by_id.find(buffer.id);
    if (found == by_id.end()) {
      throw wrong(ErrorCode::corrupt, buffer, "the pages file lacks it");
    }
    if (found->second->size != buffer.size) {
      throw wrong(ErrorCode::corrupt, buffer,
                  "the pages file holds " + std::to_string(found->second->size) +
                      " bytes, the buffer has " + std::to_string(buffer.size));
    }
    targets_.push_back({&buffer, found->second});
  }
  std::stable_sort(targets_.begin(), targets_.end(), [](const Target& a, const Target& b) {
    return a.content->first_frame < b.content->first_frame;
  });
}

Load UploadPlan::next() {
  Load load;
  used_ = 0;
  while (!done() && load.pieces.size() < kMaxSegments) {
    const auto& [buffer, content] = targets_[next_];
    const std::uint64_t index = content->first_frame + frame_;
    const SiblingFiles::Frame frame =
        chain_ ? chain_->find(index) : SiblingFiles::Frame{&in_, index, in_.frame(index)};
    const std::uint32_t raw = frame.entry.raw;
    if (!add(load, *frame.file, {buffer, offset_, 0, raw, frame.entry, frame.index})) break;
    offset_ += raw;
    if (++frame_ < content->frames) continue;
    frame_ = 0;
    offset_ = 0;
    ++next_;
  }
  return load;
}

bool UploadPlan::add(Load& load, const PagesReader& file, const Piece& piece) {
  const FrameEntry& frame = piece.frame;
  const Load::Kind kind = frame.codec == Codec::zero  ? Load::Kind::zeros
                          : frame.codec == Codec::raw ? Load::Kind::in_place
                                                      : Load::Kind::decoded;
  const bool first = load.pieces.empty();
  std::size_t at = 0;
  if (kind == Load::Kind::zeros) {
    // All of them lie at the start of the slot. The bytes in flight stay within the ring: a
    // cancelled job waits for them.
    if (frame.raw > slot_bytes_ - used_) return false;
  } else {
    if (!first && load.file != &file) return false;
    const std::uint64_t end = frame.offset + frame.stored;
    if (!first && (frame.offset < load.end || frame.offset - load.end > kMaxGap)) return false;
    const std::uint64_t begin = first ? frame.offset : load.begin;
    if (end - begin > slot_bytes_) return false;
    if (kind == Load::Kind::in_place) {
      at = static_cast<std::size_t>(frame.offset - begin);
    } else {
      at = used_;
      if (frame.raw > slot_bytes_ - used_) return false;
    }
  }
  if (!first && kind != load.kind) return false;
  load.kind = kind;
  if (kind == Load::Kind::zeros) {
    used_ += frame.raw;
  } else {
    if (first) load.begin = frame.offset;
    load.file = &file;
    load.end = frame.offset + frame.stored;
    used_ = std::min<std::size_t>(slot_bytes_, align_up(at + frame.raw, kPageBytes));
  }
  load.pieces.push_back(piece);
  load.pieces.back().slot_offset = at;
  return true;
}

}  // namespace kfdcp
