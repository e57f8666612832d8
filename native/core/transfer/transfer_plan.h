// The plan of a transfer: frames that share a slot of the staging ring, and their offsets in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/pages/pages.h"
#include "core/transfer/transfer.h"

namespace kfdcp {

/// The content of one frame in a slot.
struct Piece {
  const ContentBuffer* buffer;
  std::uint64_t offset;     // in the buffer, bytes
  std::size_t slot_offset;  // bytes, a multiple of 4096
  std::size_t bytes;
  FrameEntry frame{};       // of uploads alone, as is its number
  std::uint64_t index = 0;  // in the pages file that stores it
};

/// The content of one slot: a large frame, or several small ones.
struct Load {
  /// How an upload comes by it: zeros are made and shared by all pieces; `in_place` is read as it
  /// lies in the file; `decoded` is read beside the slot and decoded into it.
  enum class Kind { zeros, in_place, decoded };
  Kind kind = Kind::in_place;
  std::vector<Piece> pieces;
  const PagesReader* file = nullptr;  // that stores them; of uploads alone, none for zeros
  std::uint64_t begin = 0;            // of the stored bytes in the file
  std::uint64_t end = 0;
};

/// The frames of buffers in their order.
class DrainPlan {
 public:
  /// Throws Error{protocol} for an empty buffer. Slots are as large as a frame.
  DrainPlan(const std::vector<ContentBuffer>& buffers, std::size_t slot_bytes);
  bool done() const { return next_ == end_; }
  /// The next slot's; not done().
  Load next();

 private:
  std::vector<ContentBuffer>::const_iterator next_;
  std::vector<ContentBuffer>::const_iterator end_;
  std::size_t slot_bytes_;
  std::uint64_t offset_ = 0;  // in *next_
};

/// The frames of buffers in the order of the file, so that it is read front to back.
class UploadPlan {
 public:
  /// `chain`: as for upload(). Throws Error{unsupported} when a frame does not fit in a slot, or is
  /// in a parent or sibling and no `chain` has it; Error{corrupt} for a buffer that `in` lacks or
  /// holds with another size.
  UploadPlan(const std::vector<ContentBuffer>& buffers, const PagesReader& in,
             std::size_t slot_bytes, const FrameChain* chain);
  bool done() const { return next_ == targets_.size(); }
  /// Throws as FrameChain.
  Load next();

 private:
  struct Target {
    const ContentBuffer* buffer;
    const BufferEntry* content;
  };
  /// Takes a frame of `file` into the slot; false when it does not fit in with the others there.
  bool add(Load& load, const PagesReader& file, const Piece& piece);

  const PagesReader& in_;
  const FrameChain* const chain_;
  std::size_t slot_bytes_;
  std::vector<Target> targets_;
  std::size_t next_ = 0;     // target
  std::uint64_t frame_ = 0;  // of it
  std::uint64_t offset_ = 0;
  std::size_t used_ = 0;  // bytes of the slot; of zeros, bytes to be copied
};

}  // namespace kfdcp
