#include "core/pages/pages_encode.h"

#include <algorithm>
#include <cstring>

namespace kfdcp::layout {

namespace {

/// What frames of such a file may be: known before the first of them is.
std::uint64_t features_of(Compress compress) {
  switch (compress) {
    case Compress::none:
      break;
    case Compress::automatic:
      return kLz4Frames | kPlaneFrames;
    case Compress::lz4:
      return kLz4Frames;
    case Compress::zstd:
      return kPlaneFrames;
  }
  return 0;
}

}  // namespace

Header make_header(const PagesOptions& options, const Digest128& parent, bool siblings) {
  Header header{};
  std::memcpy(header.magic, kHeaderMagic, sizeof(header.magic));
  header.version = kVersion;
  header.header_bytes = sizeof(Header);
  header.required_features = features_of(options.compress);
  if (options.share) {
    header.required_features |= kSharedFrames;
    header.optional_features = kDigests;
    header.digest_algorithm = kDigestXxh3;
  }
  if (parent != Digest128{}) {
    header.required_features |= kReferences;
    std::copy(parent.begin(), parent.end(), header.parent);
  }
  if (siblings) header.required_features |= kSiblings;
  header.frame_bytes = options.frame_bytes;
  header.process = options.process;
  header.gpu = options.gpu;
  header.checksum = block_checksum(header);
  return header;
}

IndexHeader make_index_header(std::uint32_t buffers, const PagesSummary& summary,
                              std::uint64_t stored_bytes) {
  IndexHeader index{};
  std::memcpy(index.magic, kIndexMagic, sizeof(index.magic));
  index.buffers = buffers;
  index.records_per_page = kRecordsPerPage;
  index.frames = summary.frames;
  index.zero_frames = summary.zero_frames;
  index.content_bytes = summary.content_bytes;
  index.stored_bytes = stored_bytes;
  // Both are at most kMaxFrames.
  index.references = static_cast<std::uint32_t>(summary.references);
  index.siblings = static_cast<std::uint32_t>(summary.siblings);
  index.checksum = block_checksum(index);
  return index;
}

FrameRecord make_record(const FrameEntry& frame) {
  FrameRecord record{};
  std::memcpy(record.magic, kRecordMagic, sizeof(record.magic));
  record.codec = static_cast<std::uint8_t>(frame.codec);
  record.offset = frame.offset;
  record.stored = frame.stored;
  record.raw = frame.raw;
  record.checksum = frame.checksum;
  std::copy(frame.digest.begin(), frame.digest.end(), record.digest);
  return record;
}

Footer make_footer(std::uint64_t index_offset, const PagesSummary& summary) {
  Footer footer{};
  std::memcpy(footer.magic, kFooterMagic, sizeof(footer.magic));
  footer.index_offset = index_offset;
  footer.file_bytes = summary.file_bytes;
  std::copy(summary.root.begin(), summary.root.end(), footer.root);
  footer.checksum = block_checksum(footer);
  return footer;
}

}  // namespace kfdcp::layout
