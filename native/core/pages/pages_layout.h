// The pages file on disk, version 1: its blocks and their places. Normative text:
// docs/image-format.md. All offsets and sizes are bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/pages/frame_bytes.h"
#include "core/pages/hash.h"
#include "core/pages/pages.h"

namespace kfdcp::layout {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kMinFrameBytes = 1u << 20;
inline constexpr std::uint32_t kMaxFrameBytes = 4u << 20;
inline constexpr std::uint64_t kRawAlignment = 4096;  // O_DIRECT on any block device
inline constexpr std::uint64_t kAlignment = 64;       // of records, and of everything in the index
inline constexpr std::uint32_t kRecordsPerPage = 1024;
// They bound the memory a hostile index can ask for; 2^22 frames of 2 MiB are 8 TiB.
inline constexpr std::uint64_t kMaxFrames = 1u << 22;
inline constexpr std::uint32_t kMaxBuffers = 1u << 20;

// Known required features.
inline constexpr std::uint64_t kReferences = 1u << 0;
inline constexpr std::uint64_t kLz4Frames = 1u << 2;
inline constexpr std::uint64_t kPlaneFrames = 1u << 3;
inline constexpr std::uint64_t kSharedFrames = 1u << 4;
inline constexpr std::uint64_t kSiblings = 1u << 5;
// Known optional features.
inline constexpr std::uint64_t kDigests = 1u << 0;
inline constexpr std::uint32_t kDigestXxh3 = 1;  // XXH3-128

inline constexpr char kHeaderMagic[] = "KFDPAGES";
inline constexpr char kRecordMagic[] = "KFDF";
inline constexpr char kIndexMagic[] = "KFDINDEX";
inline constexpr char kFooterMagic[] = "KFDPGEND";

struct Header {
  char magic[8];  // kHeaderMagic
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t required_features;
  std::uint64_t optional_features;
  std::uint32_t frame_bytes;
  std::uint32_t process;
  std::uint32_t gpu;
  std::uint32_t digest_algorithm;
  std::uint8_t parent[16];
  std::uint8_t encryption[448];
  std::uint8_t reserved[3576];
  std::uint64_t checksum;  // block_checksum()
};
static_assert(sizeof(Header) == 4096);

/// Twice in the file: before the stored bytes of its frame, for readers of a stream, and in the
/// index. A zero frame is in the index only.
struct FrameRecord {
  char magic[4];  // kRecordMagic
  std::uint8_t codec;
  std::uint8_t flags;
  std::uint16_t reserved;
  std::uint64_t offset;
  std::uint32_t stored;
  std::uint32_t raw;
  std::uint64_t checksum;
  std::uint8_t digest[32];
};
static_assert(sizeof(FrameRecord) == 64);

struct IndexHeader {
  char magic[8];  // kIndexMagic
  std::uint32_t buffers;
  std::uint32_t records_per_page;
  std::uint64_t frames;
  std::uint64_t zero_frames;
  std::uint64_t content_bytes;
  std::uint64_t stored_bytes;
  std::uint32_t references;
  std::uint32_t siblings;
  std::uint64_t checksum;  // block_checksum()
};
static_assert(sizeof(IndexHeader) == 64);

struct BufferRecord {
  std::uint32_t id;
  std::uint32_t reserved;
  std::uint64_t size;
  std::uint64_t first_frame;
  std::uint64_t frames;
};
static_assert(sizeof(BufferRecord) == 32);

struct Footer {
  char magic[8];  // kFooterMagic
  std::uint64_t index_offset;
  std::uint64_t file_bytes;
  std::uint8_t root[16];
  std::uint64_t reserved[2];
  std::uint64_t checksum;  // block_checksum()
};
static_assert(sizeof(Footer) == 64);

/// XXH3-64 of a block up to its own checksum, with which it ends.
template <typename Block>
std::uint64_t block_checksum(const Block& block) {
  return xxh3_64(bytes_of(block).first(offsetof(Block, checksum)));
}

/// Where the stored bytes of a frame lie whose record starts at `record_offset`.
std::uint64_t data_offset(Codec codec, std::uint64_t record_offset);
/// Where the record after a stored frame starts, or the index.
std::uint64_t end_of(const FrameEntry& frame);

std::uint64_t frame_pages(std::uint64_t frames);
/// Buffer table and page digests, padded.
std::uint64_t tables_bytes(const IndexHeader& index);
std::uint64_t index_bytes(const IndexHeader& index);
/// The digest a manifest keeps: of the header, the index header and the tables.
Digest128 root_of(const Header& header, const IndexHeader& index,
                  std::span<const std::byte> tables);

}  // namespace kfdcp::layout
