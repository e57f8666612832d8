// The checks of the blocks of a pages file that its readers share. All offsets and sizes are bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/pages/hash.h"
#include "core/pages/pages.h"
#include "core/pages/pages_layout.h"

namespace kfdcp::layout {

// Each check throws Error{corrupt}, or Error{unsupported} for a file of a later writer.

/// Whether frames have digests of an algorithm that is known here.
bool has_digests(const Header& header);
/// The options a header records.
PagesOptions check_header(const Header& header);
void check_index_header(const IndexHeader& index, const Header& header);
void check_footer(const Footer& footer);
/// `table` as index.buffers entries; sums and counts must equal the ones in `index`.
std::vector<BufferEntry> check_buffers(std::span<const BufferRecord> table,
                                       const IndexHeader& index, std::uint32_t frame_bytes);
/// Whether a block between the frames is a record; else it is the index header.
bool is_record(const FrameRecord& record);
/// All of one record that does not depend on its place in the file with this header.
FrameEntry check_record(const FrameRecord& record, const Header& header);

/// Takes the tables apart; the two outputs have the sizes of `index` already. Throws Error{corrupt}
/// when the padding is not zero.
void split_tables(std::span<const std::byte> tables, std::span<BufferRecord> buffers,
                  std::span<Digest128> pages);
/// Content length each frame must have, in the order of the index.
class RawLengths {
 public:
  RawLengths(const std::vector<BufferEntry>& buffers, std::uint32_t frame_bytes)
      : buffers_(buffers), frame_bytes_(frame_bytes) {}
  /// Call at most once per frame that check_buffers counted.
  std::uint32_t next();

 private:
  const std::vector<BufferEntry>& buffers_;
  std::uint32_t frame_bytes_;
  std::size_t buffer_ = 0;
  std::uint64_t done_ = 0;  // frames of this buffer
};

}  // namespace kfdcp::layout
