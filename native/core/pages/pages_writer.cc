#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/os/error.h"
#include "core/os/file_io.h"
#include "core/pages/frame_bytes.h"
#include "core/pages/frame_codec.h"
#include "core/pages/gathered_frames.h"
#include "core/pages/known_frames.h"
#include "core/pages/pages.h"
#include "core/pages/pages_encode.h"
#include "core/pages/pages_layout.h"
#include "core/pages/pages_sink.h"

namespace kfdcp {

namespace {

constexpr char kSubject[] = "pages file";

void require(bool ok, const char* reason) {
  if (!ok) throw Error(ErrorCode::protocol, std::string(kSubject) + ": " + reason);
}

void check_options(const PagesOptions& options) {
  require(options.frame_bytes >= layout::kMinFrameBytes &&
              options.frame_bytes <= layout::kMaxFrameBytes &&
              options.frame_bytes % layout::kRawAlignment == 0,
          "bad frame size");
}

}  // namespace

struct PagesWriter::State {
  State(std::unique_ptr<PagesSink> out, const PagesOptions& options, const PagesReader* parent,
        ImageFrames* image)
      : sink(std::move(out)),
        options(options),
        header(layout::make_header(options, parent ? parent->summary().root : Digest128{},
                                   image != nullptr)),
        known(image, options.process, options.gpu) {
    summary.digests = options.share;
    if (!parent) return;
    known.add_parent(*parent);
    summary.parent = parent->summary().root;
  }

  /// Writes `parts` at `offset`. After a failed write nobody knows what the file holds.
  void put(std::span<iovec> parts, std::uint64_t offset) {
    try {
      sink->write(parts, offset);
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
      usable = false;
      throw;
    }
  }

  /// Throws the error of a failed write. Another worker may come here before the failed one has
  /// reported it.
  void must_be_usable() {
    if (usable) return;
    const std::lock_guard lock(mutex);
    if (failure) std::rethrow_exception(failure);
    require(false, "written to after it ended");
  }

  const std::unique_ptr<PagesSink> sink;
  const PagesOptions options;
  const layout::Header header;
  WriteCost cost;
  KnownFrames known;
  std::unique_ptr<FrameEncoder> encoder;          // of append
  std::atomic<bool> usable = true;                // neither failed nor ended
  std::mutex mutex;                               // of `failure`
  std::exception_ptr failure;                     // of the first write that failed
  std::atomic<std::uint64_t> unwritten = 0;       // frames that have a place only
  std::uint64_t cursor = sizeof(layout::Header);  // end of the file, a multiple of kAlignment
  std::uint64_t buffer_left = 0;                  // content the current buffer still lacks
  std::uint64_t stored_bytes = 0;
  PagesSummary summary;
  std::unordered_set<std::uint32_t> ids;
  std::vector<layout::BufferRecord> buffers;
  std::vector<layout::FrameRecord> frames;
};

PagesWriter::PagesWriter(int fd, const PagesOptions& options, const PagesReader* parent,
                         ImageFrames* image)
    : PagesWriter(file_sink(fd), options, parent, image) {}

PagesWriter::PagesWriter(std::unique_ptr<PagesSink> sink, const PagesOptions& options,
                         const PagesReader* parent, ImageFrames* image) {
  check_options(options);
  require(options.share || !parent, "a parent without digests of this file");
  require(options.share || !image, "siblings without digests of this file");
  require(!image || (options.process <= kMaxSiblingOrdinal && options.gpu <= kMaxSiblingOrdinal),
          "ordinals that siblings cannot have");
  state_ = std::make_unique<State>(std::move(sink), options, parent, image);
  iovec part = write_part(bytes_of(state_->header));
  state_->put({&part, 1}, 0);
}

PagesWriter::~PagesWriter() = default;

void PagesWriter::begin_buffer(std::uint32_t id, std::uint64_t size) {
  State& s = *state_;
  s.must_be_usable();
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
  const PlacedFrame placed = place(frame.size(), encoded);
  write({&placed, 1}, {&encoded, 1});
}

PlacedFrame PagesWriter::place(std::size_t raw, const EncodedFrame& frame) {
  State& s = *state_;
  s.must_be_usable();
  require(raw == std::min<std::uint64_t>(s.options.frame_bytes, s.buffer_left) && raw > 0,
          "frame of a wrong length");

  PlacedFrame placed{.is_new = false, .begin = s.cursor, .entry = {}};
  FrameEntry& entry = placed.entry;
  entry.raw = static_cast<std::uint32_t>(raw);
  entry.codec = frame.codec;
  entry.checksum = frame.checksum;
  entry.digest = frame.digest;
  const auto known =
      s.options.share && frame.codec != Codec::zero
          ? s.known.find_or_add(identity_of(entry), static_cast<std::uint32_t>(s.frames.size()))
          : std::nullopt;
  if (frame.codec == Codec::zero) {
    ++s.summary.zero_frames;
  } else if (known && known->in == KnownFrames::Place::In::this_file) {
    s.frames.push_back(s.frames[known->frame]);
    s.buffer_left -= raw;
    return placed;
  } else if (known) {
    const bool in_parent = known->in == KnownFrames::Place::In::parent;
    entry.codec = in_parent ? Codec::reference : Codec::sibling;
    entry.offset = known->frame;
    ++(in_parent ? s.summary.references : s.summary.siblings);
  } else {
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

void PagesWriter::write(std::span<const PlacedFrame> placed, std::span<const EncodedFrame> frames) {
  require(placed.size() == frames.size(), "frames and places differ");
  GatheredFrames run;
  const auto put = [&] {
    if (run.empty()) return;
    const auto begin = std::chrono::steady_clock::now();
    state_->put(run.parts(), run.begin());
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begin;
    state_->cost.add(run.bytes(), static_cast<std::uint64_t>(time.count()));
    state_->unwritten -= run.frames();
    run.clear();
  };
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i].is_new) continue;
    if (!run.takes(placed[i])) put();
    run.add(placed[i], frames[i].stored);
  }
  put();
}

std::uint64_t PagesWriter::direct_bytes() const { return state_->sink->direct_bytes(); }

PagesSummary PagesWriter::finish() {
  State& s = *state_;
  s.must_be_usable();
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
