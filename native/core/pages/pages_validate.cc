#include "core/pages/pages_validate.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/os/error.h"
#include "core/pages/frame_bytes.h"

namespace kfdcp::layout {

namespace {

[[noreturn]] void corrupt(const std::string& reason) {
  throw Error(ErrorCode::corrupt, "pages file: " + reason);
}

[[noreturn]] void unsupported(const std::string& reason) {
  throw Error(ErrorCode::unsupported, "pages file: " + reason);
}

void require(bool ok, const char* reason) {
  if (!ok) corrupt(reason);
}

template <std::size_t N>
bool has_magic(const char (&field)[N], const char* magic) {
  return std::memcmp(field, magic, N) == 0;
}

template <std::size_t N>
bool all_zero(const std::uint8_t (&field)[N]) {
  return kfdcp::all_zero(std::as_bytes(std::span(field)));
}

constexpr std::uint64_t kKnownFeatures =
    kReferences | kLz4Frames | kPlaneFrames | kSharedFrames | kSiblings;

/// The required feature a codec needs; 0: none.
std::uint64_t feature_of(Codec codec) {
  if (codec == Codec::lz4) return kLz4Frames;
  if (codec == Codec::reference) return kReferences;
  if (codec == Codec::sibling) return kSiblings;
  return codec == Codec::planes ? kPlaneFrames : 0;
}

}  // namespace

bool has_digests(const Header& header) {
  return (header.optional_features & kDigests) != 0 && header.digest_algorithm == kDigestXxh3;
}

PagesOptions check_header(const Header& header) {
  require(has_magic(header.magic, kHeaderMagic), "bad magic");
  // Before the checksum: a later version may keep it elsewhere.
  if (header.version != kVersion) unsupported("version " + std::to_string(header.version));
  require(header.checksum == block_checksum(header), "header checksum differs");
  require(header.header_bytes == sizeof(Header), "bad header size");
  const std::uint64_t unknown = header.required_features & ~kKnownFeatures;
  if (unknown != 0) unsupported("required features " + std::to_string(unknown));
  require(header.frame_bytes >= kMinFrameBytes && header.frame_bytes <= kMaxFrameBytes &&
              header.frame_bytes % kRawAlignment == 0,
          "bad frame size");
  require(all_zero(header.encryption), "fields without their feature");
  const bool refers = (header.required_features & kReferences) != 0;
  require(refers != all_zero(header.parent), "references and parent do not agree");
  require(!refers || has_digests(header), "references without digests");
  require((header.required_features & kSiblings) == 0 || has_digests(header),
          "siblings without digests");
  if (header.optional_features == 0) {
    require(header.digest_algorithm == 0 && all_zero(header.reserved), "reserved header bytes set");
  }
  PagesOptions options;
  options.frame_bytes = header.frame_bytes;
  options.process = header.process;
  options.gpu = header.gpu;
  return options;
}

void check_index_header(const IndexHeader& index, const Header& header) {
  require(has_magic(index.magic, kIndexMagic), "bad index magic");
  require(index.checksum == block_checksum(index), "index header checksum differs");
  require(index.records_per_page == kRecordsPerPage, "bad index page size");
  require(index.buffers <= kMaxBuffers, "too many buffers");
  require(index.frames <= kMaxFrames, "too many frames");
  require(index.zero_frames <= index.frames, "more zero frames than frames");
  require(index.references <= index.frames - index.zero_frames, "more references than frames");
  require(index.references == 0 || (header.required_features & kReferences) != 0,
          "references without their feature");
  require(index.siblings <= index.frames - index.zero_frames - index.references,
          "more siblings than frames");
  require(index.siblings == 0 || (header.required_features & kSiblings) != 0,
          "siblings without their feature");
}

void check_footer(const Footer& footer) {
  require(has_magic(footer.magic, kFooterMagic), "bad footer magic");
  require(footer.checksum == block_checksum(footer), "footer checksum differs");
  require(footer.reserved[0] == 0 && footer.reserved[1] == 0, "reserved footer bytes set");
}

std::vector<BufferEntry> check_buffers(std::span<const BufferRecord> table,
                                       const IndexHeader& index, std::uint32_t frame_bytes) {
  std::vector<BufferEntry> out;
  std::vector<std::uint32_t> ids;
  out.reserve(table.size());
  ids.reserve(table.size());
  std::uint64_t frames = 0;
  std::uint64_t content = 0;
  for (const BufferRecord& record : table) {
    require(record.reserved == 0, "reserved buffer bytes set");
    require(record.size > 0, "empty buffer");
    require(record.frames == (record.size - 1) / frame_bytes + 1, "buffer size and frames differ");
    require(record.first_frame == frames, "buffers out of order");
    // Also bounds the size, so the sums cannot overflow.
    require(record.frames <= index.frames - frames, "buffers have more frames than the index");
    frames += record.frames;
    content += record.size;
    out.push_back({record.id, record.size, record.first_frame, record.frames});
    ids.push_back(record.id);
  }
  require(frames == index.frames, "index has more frames than the buffers");
  require(content == index.content_bytes, "content size differs");
  std::sort(ids.begin(), ids.end());
  require(std::adjacent_find(ids.begin(), ids.end()) == ids.end(), "buffer id used twice");
  return out;
}

bool is_record(const FrameRecord& record) { return has_magic(record.magic, kRecordMagic); }

FrameEntry check_record(const FrameRecord& record, const Header& header) {
  require(has_magic(record.magic, kRecordMagic), "bad frame magic");
  require(record.flags == 0 && record.reserved == 0, "reserved frame bytes set");
  require(header.optional_features != 0 || all_zero(record.digest),
          "frame digest without its feature");
  require(record.raw > 0 && record.raw <= header.frame_bytes, "bad frame length");
  const auto codec = static_cast<Codec>(record.codec);
  switch (codec) {
    case Codec::zero:
      require(record.offset == 0 && record.stored == 0 && record.checksum == 0,
              "zero frame that stores something");
      break;
    case Codec::raw:
      require(record.stored == record.raw, "raw frame of another length");
      break;
    case Codec::reference:
      require(record.offset < kMaxFrames && record.stored == 0, "bad reference");
      break;
    case Codec::sibling: {
      const SiblingFrame at = SiblingFrame::unpacked(record.offset);
      require(at.frame < kMaxFrames && record.stored == 0, "bad sibling");
      require(at.process != header.process || at.gpu != header.gpu, "sibling of itself");
      break;
    }
    case Codec::zstd:
    case Codec::lz4:
    case Codec::planes:
      require(record.stored > 0 && record.stored < record.raw, "bad length of a packed frame");
      break;
    default:
      corrupt("unknown codec " + std::to_string(record.codec));
  }
  const std::uint64_t feature = feature_of(codec);
  require((header.required_features & feature) == feature, "codec without its feature");
  FrameEntry entry{record.offset, record.stored, record.raw, codec, record.checksum};
  if (has_digests(header)) {
    std::copy_n(record.digest, entry.digest.size(), entry.digest.begin());
    require((codec == Codec::zero) == all_zero(record.digest), "digest of a zero frame, or none");
    require(kfdcp::all_zero(std::as_bytes(std::span(record.digest).subspan(entry.digest.size()))),
            "bytes behind a frame digest set");
  }
  return entry;
}

void split_tables(std::span<const std::byte> tables, std::span<BufferRecord> buffers,
                  std::span<Digest128> pages) {
  std::copy_n(tables.begin(), buffers.size_bytes(), std::as_writable_bytes(buffers).begin());
  tables = tables.subspan(buffers.size_bytes());
  std::copy_n(tables.begin(), pages.size_bytes(), std::as_writable_bytes(pages).begin());
  require(kfdcp::all_zero(tables.subspan(pages.size_bytes())), "padding of the index set");
}

std::uint32_t RawLengths::next() {
  const BufferEntry& buffer = buffers_.at(buffer_);
  const std::uint64_t before = done_ * frame_bytes_;
  if (++done_ == buffer.frames) {
    ++buffer_;
    done_ = 0;
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(frame_bytes_, buffer.size - before));
}

}  // namespace kfdcp::layout
