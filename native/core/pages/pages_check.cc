#include "core/pages/pages_check.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "core/os/error.h"
#include "core/pages/frame_bytes.h"
#include "core/pages/frame_codec.h"
#include "core/pages/pages_layout.h"
#include "core/pages/pages_validate.h"

namespace kfdcp {

namespace {

void require(bool ok, const char* reason) {
  if (!ok) throw Error(ErrorCode::corrupt, std::string("pages file: ") + reason);
}

template <typename Block>
Block block_from(std::span<const std::byte> bytes) {
  Block out;
  std::memcpy(&out, bytes.data(), sizeof(out));
  return out;
}

/// The records that came before their frames, to be found again in the index.
class SeenRecords {
 public:
  explicit SeenRecords(bool shared = false) : shared_(shared) {}

  void add(const layout::FrameRecord& record) {
    require(records_.size() < layout::kMaxFrames, "too many frames");
    records_.push_back({record.offset, xxh3_64(bytes_of(record))});
  }
  /// Each at least once in the end; more often only when frames are shared.
  void match(const layout::FrameRecord& record) {
    matched_.resize(records_.size());
    // Nearly always the next one; offsets are unique and ascending in any case.
    if (next_ == records_.size() || records_[next_].offset != record.offset) {
      const auto found =
          std::lower_bound(records_.begin(), records_.end(), record.offset,
                           [](const Record& a, std::uint64_t offset) { return a.offset < offset; });
      next_ = static_cast<std::size_t>(found - records_.begin());
    }
    require(next_ < records_.size() && records_[next_].offset == record.offset &&
                records_[next_].hash == xxh3_64(bytes_of(record)),
            "index and frame records differ");
    require(shared_ || !matched_[next_], "frame used twice");
    if (!matched_[next_]) ++distinct_;
    matched_[next_++] = true;
    ++matches_;
  }
  std::uint64_t matches() const { return matches_; }
  bool all_matched() const { return distinct_ == records_.size(); }

 private:
  struct Record {
    std::uint64_t offset;
    std::uint64_t hash;
  };
  std::vector<Record> records_;
  std::vector<bool> matched_;
  std::size_t next_ = 0;
  bool shared_;
  std::uint64_t matches_ = 0;
  std::uint64_t distinct_ = 0;
};

}  // namespace

struct PagesStreamCheck::State {
  enum class Stage { header, record, frame, tables, page, footer, end, failed };

  /// Handles one unit of `need` bytes and sets the next stage and need.
  void step(std::span<std::byte> unit);
  void on_header(std::span<const std::byte> unit);
  void on_record(std::span<const std::byte> unit);
  void on_frame(std::span<std::byte> unit);
  void on_tables(std::span<const std::byte> unit);
  void on_page(std::span<const std::byte> unit);
  void on_footer(std::span<const std::byte> unit);
  void next(Stage to, std::uint64_t bytes) {
    stage = to;
    need = bytes;
  }
  void next_page() {
    const std::uint64_t left = index.frames - frames_listed;
    if (left == 0) return next(Stage::footer, sizeof(layout::Footer));
    next(Stage::page,
         std::min<std::uint64_t>(left, layout::kRecordsPerPage) * sizeof(layout::FrameRecord));
  }

  /// Nothing but the listing is needed any more. The owner may live on for long.
  void release() {
    unit = {};
    content = {};
    decoder.reset();
    seen = SeenRecords();
    pages = {};
    lengths.reset();
  }

  IndexSink keep;
  FrameSink sink;
  Stage stage = Stage::header;
  std::uint64_t need = sizeof(layout::Header);
  std::uint64_t at = 0;  // offset of the current unit in the file
  std::vector<std::byte> unit;
  std::vector<std::byte> content;
  std::optional<FrameDecoder> decoder;

  layout::Header header{};
  layout::IndexHeader index{};
  std::uint64_t index_offset = 0;
  FrameEntry frame{};
  std::uint64_t frames_stored = 0;
  std::uint64_t stored_bytes = 0;
  SeenRecords seen;
  std::vector<Digest128> pages;
  std::uint64_t frames_listed = 0;
  std::uint64_t references = 0;
  std::uint64_t siblings = 0;
  std::optional<layout::RawLengths> lengths;
  PagesListing listing;
};

void PagesStreamCheck::State::step(std::span<std::byte> bytes) {
  switch (stage) {
    case Stage::header:
      return on_header(bytes);
    case Stage::record:
      return on_record(bytes);
    case Stage::frame:
      return on_frame(bytes);
    case Stage::tables:
      return on_tables(bytes);
    case Stage::page:
      return on_page(bytes);
    case Stage::footer:
      return on_footer(bytes);
    case Stage::end:
    case Stage::failed:
      require(false, "data after its end");
  }
}

void PagesStreamCheck::State::on_header(std::span<const std::byte> bytes) {
  header = block_from<layout::Header>(bytes);
  listing.options = layout::check_header(header);
  seen = SeenRecords((header.required_features & layout::kSharedFrames) != 0);
  next(Stage::record, sizeof(layout::FrameRecord));
}

void PagesStreamCheck::State::on_record(std::span<const std::byte> bytes) {
  static_assert(sizeof(layout::IndexHeader) == sizeof(layout::FrameRecord));
  const auto record = block_from<layout::FrameRecord>(bytes);
  if (!layout::is_record(record)) {
    index = block_from<layout::IndexHeader>(bytes);
    layout::check_index_header(index, header);
    require(index.stored_bytes == stored_bytes, "sum of stored bytes differs");
    index_offset = at;
    return next(Stage::tables, layout::tables_bytes(index));
  }
  frame = layout::check_record(record, header);
  require(is_stored(frame.codec) && frame.offset == layout::data_offset(frame.codec, at),
          "frame out of place");
  seen.add(record);
  stored_bytes += frame.stored;
  next(Stage::frame, layout::end_of(frame) - at - sizeof(record));
}

void PagesStreamCheck::State::on_frame(std::span<std::byte> bytes) {
  const std::size_t gap = frame.offset - at;
  const std::span<std::byte> stored = bytes.subspan(gap, frame.stored);
  require(all_zero(bytes.first(gap)) && all_zero(bytes.subspan(gap + frame.stored)),
          "padding of a frame set");
  std::span<std::byte> out = stored;
  if (frame.codec != Codec::raw) {
    if (content.size() < frame.raw) content.resize(frame.raw);
    out = std::span(content).first(frame.raw);
  }
  if (!decoder) decoder.emplace();
  decoder->decode(frame, frames_stored++, stored, out);
  next(Stage::record, sizeof(layout::FrameRecord));
}

void PagesStreamCheck::State::on_tables(std::span<const std::byte> bytes) {
  std::vector<layout::BufferRecord> table(index.buffers);
  pages.resize(layout::frame_pages(index.frames));
  layout::split_tables(bytes, table, pages);
  listing.buffers = layout::check_buffers(table, index, header.frame_bytes);
  listing.summary.root = layout::root_of(header, index, bytes);
  lengths.emplace(listing.buffers, header.frame_bytes);
  next_page();
}

void PagesStreamCheck::State::on_page(std::span<const std::byte> bytes) {
  require(xxh3_128(bytes) == pages[frames_listed / layout::kRecordsPerPage],
          "frame page digest differs");
  for (; !bytes.empty(); bytes = bytes.subspan(sizeof(layout::FrameRecord))) {
    const auto record = block_from<layout::FrameRecord>(bytes);
    const FrameEntry entry = layout::check_record(record, header);
    require(entry.raw == lengths->next(), "frame length does not fit its buffer");
    if (is_stored(entry.codec)) seen.match(record);
    if (entry.codec == Codec::reference) ++references;
    if (entry.codec == Codec::sibling) ++siblings;
    if (sink) sink(entry);
    ++frames_listed;
  }
  next_page();
}

void PagesStreamCheck::State::on_footer(std::span<const std::byte> bytes) {
  const auto footer = block_from<layout::Footer>(bytes);
  layout::check_footer(footer);
  PagesSummary& summary = listing.summary;
  require(seen.all_matched(), "frame that the index lacks");
  require(references == index.references, "count of references differs");
  require(siblings == index.siblings, "count of siblings differs");
  require(index.frames - seen.matches() - references - siblings == index.zero_frames,
          "count of zero frames differs");
  require(footer.index_offset == index_offset, "bad index offset");
  require(footer.file_bytes == at + sizeof(footer), "file has another length than its footer says");
  require(std::equal(summary.root.begin(), summary.root.end(), footer.root), "root differs");
  summary.content_bytes = index.content_bytes;
  summary.file_bytes = footer.file_bytes;
  summary.frames = index.frames;
  summary.zero_frames = index.zero_frames;
  summary.references = index.references;
  summary.siblings = index.siblings;
  summary.digests = layout::has_digests(header);
  std::copy_n(header.parent, summary.parent.size(), summary.parent.begin());
  next(Stage::end, 1);
}

PagesStreamCheck::PagesStreamCheck(IndexSink index, FrameSink frames)
    : state_(std::make_unique<State>()) {
  state_->keep = std::move(index);
  state_->sink = std::move(frames);
}
PagesStreamCheck::~PagesStreamCheck() = default;

void PagesStreamCheck::feed(std::span<const std::byte> bytes) {
  using Stage = State::Stage;
  State& s = *state_;
  while (!bytes.empty()) {
    if (s.stage == State::Stage::failed) {
      throw Error(ErrorCode::protocol, "pages file: checked on after it failed");
    }
    // Grows with the received bytes, not with the announced size.
    const auto part = bytes.first(std::min<std::uint64_t>(bytes.size(), s.need - s.unit.size()));
    s.unit.insert(s.unit.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (s.unit.size() < s.need) return;
    const Stage stage = s.stage;
    try {
      s.step(s.unit);
      // A frame follows its record. The bytes read as a record may be the index header.
      if (s.keep && stage != Stage::frame && s.stage != Stage::frame) s.keep(s.at, s.unit);
    } catch (...) {
      s.stage = State::Stage::failed;
      s.release();
      throw;
    }
    s.at += s.unit.size();
    s.unit.clear();
    if (s.stage == State::Stage::end) s.release();
  }
}

PagesListing PagesStreamCheck::finish() {
  if (state_->stage == State::Stage::failed) {
    throw Error(ErrorCode::protocol, "pages file: checked on after it failed");
  }
  require(state_->stage == State::Stage::end, "file ends too early");
  return state_->listing;
}

}  // namespace kfdcp
