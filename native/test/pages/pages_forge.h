// Forging pages files: change anything, then make every checksum of header and index right again,
// so that the checks behind the checksums are reached.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/pages/frame_bytes.h"
#include "core/pages/hash.h"
#include "core/pages/pages_layout.h"
#include "test/os/memory_file.h"

namespace kfdcp::test {

template <typename Block>
Block block_at(const Bytes& file, std::size_t offset) {
  REQUIRE(offset + sizeof(Block) <= file.size());
  Block out;
  std::memcpy(&out, file.data() + offset, sizeof(out));
  return out;
}

template <typename Block>
void put_block(Bytes& file, std::size_t offset, const Block& block) {
  REQUIRE(offset + sizeof(Block) <= file.size());
  std::memcpy(file.data() + offset, &block, sizeof(block));
}

/// Where the parts of a file lie, as far as its own words can be followed.
struct Anatomy {
  explicit Anatomy(const Bytes& file) {
    if (file.size() < sizeof(layout::Header) + sizeof(layout::Footer)) return;
    footer = file.size() - sizeof(layout::Footer);
    const auto end = block_at<layout::Footer>(file, footer);
    if (end.index_offset > footer || footer - end.index_offset < sizeof(layout::IndexHeader))
      return;
    index = end.index_offset;
    tables = index + sizeof(layout::IndexHeader);
    const auto head = block_at<layout::IndexHeader>(file, index);
    if (head.frames > layout::kMaxFrames || head.buffers > layout::kMaxBuffers) return;
    digests = tables + head.buffers * sizeof(layout::BufferRecord);
    records = tables + layout::tables_bytes(head);
    frames = head.frames;
    whole = records + frames * sizeof(layout::FrameRecord) == footer;
  }
  bool whole = false;
  std::size_t footer = 0, index = 0, tables = 0, digests = 0, records = 0, frames = 0;
};

template <typename Block>
void reseal_block(Bytes& file, std::size_t offset) {
  auto block = block_at<Block>(file, offset);
  block.checksum = xxh3_64(bytes_of(block).first(offsetof(Block, checksum)));
  put_block(file, offset, block);
}

/// Whatever cannot be found is left as it is.
inline void reseal(Bytes& file) {
  const Anatomy at(file);
  if (at.footer == 0) return;
  reseal_block<layout::Header>(file, 0);
  if (at.index != 0) reseal_block<layout::IndexHeader>(file, at.index);
  if (at.whole) {
    const std::span<const std::byte> all(file);
    for (std::size_t page = 0; page < layout::frame_pages(at.frames); ++page) {
      const std::size_t first = page * layout::kRecordsPerPage;
      const std::size_t count = std::min<std::size_t>(at.frames - first, layout::kRecordsPerPage);
      put_block(file, at.digests + page * sizeof(Digest128),
                xxh3_128(all.subspan(at.records + first * sizeof(layout::FrameRecord),
                                     count * sizeof(layout::FrameRecord))));
    }
    auto footer = block_at<layout::Footer>(file, at.footer);
    const Digest128 root = layout::root_of(block_at<layout::Header>(file, 0),
                                           block_at<layout::IndexHeader>(file, at.index),
                                           all.subspan(at.tables, at.records - at.tables));
    std::copy(root.begin(), root.end(), footer.root);
    put_block(file, at.footer, footer);
  }
  reseal_block<layout::Footer>(file, at.footer);
}

/// `file` with one block changed by `change` and everything sealed again.
template <typename Block, typename Change>
Bytes forged(Bytes file, std::size_t offset, Change&& change) {
  auto block = block_at<Block>(file, offset);
  change(block);
  put_block(file, offset, block);
  reseal(file);
  return file;
}

}  // namespace kfdcp::test
