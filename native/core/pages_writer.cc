#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/error.h"
#include "core/frame_codec.h"
#include "core/frame_io.h"
#include "core/pages.h"
#include "core/pages_layout.h"

namespace kfdcp {

namespace {

constexpr char kSubject[] = "pages file";
constexpr std::array<std::byte, layout::kRawAlignment> kZeros{};

void require(bool ok, const char* reason) {
  if (!ok) throw Error(ErrorCode::protocol, std::string(kSubject) + ": " + reason);
}

void check_options(const PagesOptions& options) {
  require(options.frame_bytes >= layout::kMinFrameBytes &&
              options.frame_bytes <= layout::kMaxFrameBytes &&
              options.frame_bytes % layout::kRawAlignment == 0,
          "bad frame size");
}

void check_empty_file(int fd) {
  struct stat st;
  if (::fstat(fd, &st) != 0) throw io_error(kSubject);
  require(S_ISREG(st.st_mode) && st.st_size == 0, "not an empty regular file");
}

}  // namespace

struct PagesWriter::State {
  State(int fd, const PagesOptions& options, const PagesReader* parent)
      : fd(fd),
        options(options),
        header(layout::make_header(options, parent ? parent->summary().root : Digest128{})) {
    summary.digests = options.share;
    if (!parent) return;
    known.add_parent(*parent);
    summary.parent = parent->summary().root;
  }

  /// Writes `parts` at `offset`. After a failed write nobody knows what the file holds.
  void put(std::span<iovec> parts, std::uint64_t offset) {
    try {
      write_exactly(fd, parts, offset, kSubject);
    } catch (...) {
      usable = false;
      throw;
    }
  }

  const int fd;
  const PagesOptions options;
  const layout::Header header;
  WriteCost cost;
  KnownFrames known;
  std::unique_ptr<FrameEncoder> encoder;          // of append
  std::atomic<bool> usable = true;                // neither failed nor ended
  std::atomic<std::uint64_t> unwritten = 0;       // frames that have a place only
  std::uint64_t cursor = sizeof(layout::Header);  // end of the file, a multiple of kAlignment
  std::uint64_t buffer_left = 0;                  // content the current buffer still lacks
  std::uint64_t stored_bytes = 0;
  PagesSummary summary;
  std::unordered_set<std::uint32_t> ids;
  std::vector<layout::BufferRecord> buffers;
  std::vector<layout::FrameRecord> frames;
};

PagesWriter::PagesWriter(int fd, const PagesOptions& options, const PagesReader* parent) {
  check_options(options);
  require(options.share || !parent, "a parent without digests of this file");
  check_empty_file(fd);
  state_ = std::make_unique<State>(fd, options, parent);
  iovec part = write_part(bytes_of(state_->header));
  state_->put({&part, 1}, 0);
}

PagesWriter::~PagesWriter() = default;

void PagesWriter::begin_buffer(std::uint32_t id, std::uint64_t size) {
  State& s = *state_;
  require(s.usable, "written to after it failed or ended");
  require(s.buffer_left == 0, "next buffer before the last one is complete");
  require(size > 0, "empty buffer");
  const std::uint64_t frames = (size - 1) / s.options.frame_bytes + 1;
  if (frames > layout::kMaxFrames - s.frames.size() || s.buffers.size() == layout::kMaxBuffers) {
    throw Error(ErrorCode::unsupported,
                std::string(kSubject) + ": more content than one file holds");
  }
  require(s.ids.insert(id).second, "buffer id used twice");
  s.buffers.push_back({id, 0, size, s.frames.size(), frames});
  s.buffer_left = size;
  s.summary.content_bytes += size;
}

std::unique_ptr<FrameEncoder> PagesWriter::make_encoder() const {
  return std::make_unique<FrameEncoder>(state_->options, state_->cost, state_->known);
}

void PagesWriter::append(std::span<const std::byte> frame) {
  if (!state_->encoder) state_->encoder = make_encoder();
  const EncodedFrame encoded = state_->encoder->encode(frame);
  write(place(frame.size(), encoded), encoded);
}

PlacedFrame PagesWriter::place(std::size_t raw, const EncodedFrame& frame) {
  State& s = *state_;
  require(s.usable, "written to after it failed or ended");
  require(raw == std::min<std::uint64_t>(s.options.frame_bytes, s.buffer_left) && raw > 0,
          "frame of a wrong length");

  PlacedFrame placed{.is_new = false, .begin = s.cursor, .entry = {}};
  FrameEntry& entry = placed.entry;
  entry.raw = static_cast<std::uint32_t>(raw);
  entry.codec = frame.codec;
  entry.checksum = frame.checksum;
  entry.digest = frame.digest;
  const KnownFrames::Identity identity{frame.digest, frame.checksum, entry.raw};
  const auto number = static_cast<std::uint32_t>(s.frames.size());
  const auto known = s.options.share ? s.known.find(identity) : std::nullopt;
  if (frame.codec == Codec::zero) {
    ++s.summary.zero_frames;
  } else if (known && known->in_parent) {
    entry.codec = Codec::reference;
    entry.offset = known->frame;
    ++s.summary.references;
  } else if (known) {
    s.frames.push_back(s.frames[known->frame]);
    s.buffer_left -= raw;
    return placed;
  } else {
    if (s.options.share) s.known.add(identity, number);
    placed.is_new = true;
    entry.offset = layout::data_offset(frame.codec, s.cursor);
    entry.stored = static_cast<std::uint32_t>(frame.stored.size());
    s.cursor = layout::end_of(entry);
    s.stored_bytes += entry.stored;
    ++s.unwritten;
  }
  s.frames.push_back(layout::make_record(entry));
  s.buffer_left -= raw;
  return placed;
}

void PagesWriter::write(const PlacedFrame& placed, const EncodedFrame& frame) {
  if (!placed.is_new) return;
  const FrameEntry& entry = placed.entry;
  const layout::FrameRecord record = layout::make_record(entry);
  const std::size_t gap = entry.offset - placed.begin - sizeof(record);
  const std::size_t tail = layout::end_of(entry) - entry.offset - entry.stored;
  std::array<iovec, 4> parts{write_part(bytes_of(record)), write_part(std::span(kZeros).first(gap)),
                             write_part(frame.stored), write_part(std::span(kZeros).first(tail))};
  const auto begin = std::chrono::steady_clock::now();
  state_->put(parts, placed.begin);
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begin;
  state_->cost.add(entry.stored, static_cast<std::uint64_t>(time.count()));
  --state_->unwritten;
}

PagesSummary PagesWriter::finish() {
  State& s = *state_;
  require(s.usable, "written to after it failed or ended");
  require(s.buffer_left == 0, "ended before the last buffer is complete");
  require(s.unwritten == 0, "ended before all frames are written");

  s.summary.frames = s.frames.size();
  const layout::IndexHeader index = layout::make_index_header(
      static_cast<std::uint32_t>(s.buffers.size()), s.summary, s.stored_bytes);
  std::vector<std::byte> tables(layout::tables_bytes(index));
  const std::span<const std::byte> table = std::as_bytes(std::span(s.buffers));
  if (!table.empty()) std::memcpy(tables.data(), table.data(), table.size());
  std::span<const layout::FrameRecord> rest(s.frames);
  for (std::size_t at = table.size(); !rest.empty(); at += sizeof(Digest128)) {
    const auto page = rest.first(std::min<std::size_t>(rest.size(), layout::kRecordsPerPage));
    const Digest128 digest = xxh3_128(std::as_bytes(page));
    std::memcpy(tables.data() + at, digest.data(), digest.size());
    rest = rest.subspan(page.size());
  }

  const std::uint64_t index_offset = s.cursor;
  s.summary.file_bytes = index_offset + layout::index_bytes(index) + sizeof(layout::Footer);
  s.summary.root = layout::root_of(s.header, index, tables);
  const layout::Footer footer = layout::make_footer(index_offset, s.summary);
  std::array<iovec, 4> parts{write_part(bytes_of(index)), write_part(tables),
                             write_part(std::as_bytes(std::span(s.frames))),
                             write_part(bytes_of(footer))};
  s.put(parts, index_offset);
  s.usable = false;
  return s.summary;
}

}  // namespace kfdcp
