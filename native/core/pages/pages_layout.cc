#include "core/pages/pages_layout.h"

#include "core/os/page_memory.h"

namespace kfdcp::layout {

std::uint64_t data_offset(Codec codec, std::uint64_t record_offset) {
  const std::uint64_t after = record_offset + sizeof(FrameRecord);
  return codec == Codec::raw ? align_up(after, kRawAlignment) : after;
}

std::uint64_t end_of(const FrameEntry& frame) {
  return align_up(frame.offset + frame.stored, kAlignment);
}

std::uint64_t frame_pages(std::uint64_t frames) {
  return (frames + kRecordsPerPage - 1) / kRecordsPerPage;
}

std::uint64_t tables_bytes(const IndexHeader& index) {
  return align_up(
      index.buffers * sizeof(BufferRecord) + frame_pages(index.frames) * sizeof(Digest128),
      kAlignment);
}

std::uint64_t index_bytes(const IndexHeader& index) {
  return sizeof(IndexHeader) + tables_bytes(index) + index.frames * sizeof(FrameRecord);
}

Digest128 root_of(const Header& header, const IndexHeader& index,
                  std::span<const std::byte> tables) {
  Xxh3Stream hash;
  hash.update(bytes_of(header));
  hash.update(bytes_of(index));
  hash.update(tables);
  return hash.digest();
}

}  // namespace kfdcp::layout
