#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "core/os/direct_file.h"
#include "core/os/error.h"
#include "core/os/file_io.h"
#include "core/pages/frame_bytes.h"
#include "core/pages/frame_codec.h"
#include "core/pages/pages.h"
#include "core/pages/pages_layout.h"
#include "core/pages/pages_validate.h"
#include "core/wire/image_files.h"

namespace kfdcp {

namespace {

constexpr char kSubject[] = "pages file";

void require(bool ok, const char* reason) {
  if (!ok) throw Error(ErrorCode::corrupt, std::string(kSubject) + ": " + reason);
}

/// A file range that was checked against the file's size.
struct Source {
  int fd;
  std::uint64_t base;
  std::uint64_t length;

  void read(std::span<std::byte> out, std::uint64_t offset) const {
    require(offset <= length && out.size() <= length - offset, "points beyond its end");
    read_exactly(fd, out, base + offset, kSubject);
  }
  template <typename Block>
  Block block(std::uint64_t offset) const {
    Block out;
    read(writable_bytes_of(out), offset);
    return out;
  }
};

Source open_range(int fd, const FileRange& range) {
  struct stat st;
  if (::fstat(fd, &st) != 0) throw io_error(kSubject);
  require(S_ISREG(st.st_mode), "not a regular file");
  const std::uint64_t size = static_cast<std::uint64_t>(st.st_size);
  require(range.offset <= size, "range beyond the end of the file");
  const std::uint64_t rest = size - range.offset;
  const std::uint64_t length = range.length.value_or(rest);
  require(length <= rest, "range beyond the end of the file");
  require(length >= sizeof(layout::Header) + sizeof(layout::IndexHeader) + sizeof(layout::Footer),
          "too short");
  return {fd, range.offset, length};
}

/// The upper level: all but the frames and their records.
struct Top {
  layout::Header header;
  layout::IndexHeader index;
  std::uint64_t index_offset;
  std::vector<Digest128> pages;  // one per page of frame records
  PagesListing listing;
};

Top read_top(const Source& in) {
  Top top;
  top.header = in.block<layout::Header>(0);
  top.listing.options = layout::check_header(top.header);
  const auto footer = in.block<layout::Footer>(in.length - sizeof(layout::Footer));
  layout::check_footer(footer);
  require(footer.file_bytes == in.length, "file has another length than its footer says");
  require(footer.index_offset >= sizeof(layout::Header) &&
              footer.index_offset % layout::kAlignment == 0,
          "bad index offset");
  top.index_offset = footer.index_offset;
  top.index = in.block<layout::IndexHeader>(top.index_offset);
  layout::check_index_header(top.index, top.header);
  // Exact, and so a bound for every allocation below: counts are limited, sizes are in the file.
  require(in.length - sizeof(footer) - top.index_offset == layout::index_bytes(top.index),
          "index has another length than its header says");

  std::vector<std::byte> tables(layout::tables_bytes(top.index));
  in.read(tables, top.index_offset + sizeof(layout::IndexHeader));
  PagesSummary& summary = top.listing.summary;
  summary.root = layout::root_of(top.header, top.index, tables);
  require(std::equal(summary.root.begin(), summary.root.end(), footer.root), "root differs");
  std::vector<layout::BufferRecord> table(top.index.buffers);
  top.pages.resize(layout::frame_pages(top.index.frames));
  layout::split_tables(tables, table, top.pages);
  top.listing.buffers = layout::check_buffers(table, top.index, top.listing.options.frame_bytes);
  summary.content_bytes = top.index.content_bytes;
  summary.file_bytes = in.length;
  summary.frames = top.index.frames;
  summary.zero_frames = top.index.zero_frames;
  summary.references = top.index.references;
  summary.siblings = top.index.siblings;
  summary.digests = layout::has_digests(top.header);
  std::copy_n(top.header.parent, summary.parent.size(), summary.parent.begin());
  return top;
}

/// The lower level, page by page; no page is believed before its digest was compared.
std::vector<FrameEntry> read_frames(const Source& in, const Top& top) {
  std::vector<FrameEntry> frames;
  layout::RawLengths lengths(top.listing.buffers, top.header.frame_bytes);
  std::uint64_t at =
      top.index_offset + sizeof(layout::IndexHeader) + layout::tables_bytes(top.index);
  std::vector<layout::FrameRecord> page;
  for (const Digest128& digest : top.pages) {
    page.resize(std::min<std::uint64_t>(layout::kRecordsPerPage, top.index.frames - frames.size()));
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(page));
    in.read(bytes, at);
    at += bytes.size();
    require(xxh3_128(bytes) == digest, "frame page digest differs");
    for (const layout::FrameRecord& record : page) {
      frames.push_back(layout::check_record(record, top.header));
      require(frames.back().raw == lengths.next(), "frame length does not fit its buffer");
    }
  }
  return frames;
}

/// The stored frames, in whatever order, must fill the space between header and index exactly.
void check_places(const std::vector<FrameEntry>& frames, const Top& top) {
  std::vector<const FrameEntry*> stored;
  std::uint64_t references = 0, siblings = 0;
  for (const FrameEntry& frame : frames) {
    if (is_stored(frame.codec)) stored.push_back(&frame);
    if (frame.codec == Codec::reference) ++references;
    if (frame.codec == Codec::sibling) ++siblings;
  }
  require(references == top.index.references, "count of references differs");
  require(siblings == top.index.siblings, "count of siblings differs");
  require(frames.size() - stored.size() - references - siblings == top.index.zero_frames,
          "count of zero frames differs");
  std::sort(stored.begin(), stored.end(),
            [](const FrameEntry* a, const FrameEntry* b) { return a->offset < b->offset; });
  if ((top.header.required_features & layout::kSharedFrames) != 0) {
    const auto same = [](const FrameEntry* a, const FrameEntry* b) { return *a == *b; };
    stored.erase(std::unique(stored.begin(), stored.end(), same), stored.end());
  }
  std::uint64_t at = sizeof(layout::Header);
  std::uint64_t stored_bytes = 0;
  for (const FrameEntry* frame : stored) {
    stored_bytes += frame->stored;
    require(frame->offset == layout::data_offset(frame->codec, at), "frame out of place");
    at = layout::end_of(*frame);
  }
  require(at == top.index_offset, "frames do not reach the index");
  require(stored_bytes == top.index.stored_bytes, "sum of stored bytes differs");
}

}  // namespace

PagesListing list_pages(int fd, const FileRange& range) {
  return read_top(open_range(fd, range)).listing;
}

struct PagesReader::State {
  State(int fd, const FileRange& range)
      : in(open_range(fd, range)), file(fd, O_RDONLY, in.base + in.length) {
    Top top = read_top(in);
    frames = read_frames(in, top);
    check_places(frames, top);
    listing = std::move(top.listing);
  }

  std::unique_ptr<FrameDecoder> take_decoder() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<FrameDecoder>();
    std::unique_ptr<FrameDecoder> decoder = std::move(idle.back());
    idle.pop_back();
    return decoder;
  }
  void give_back(std::unique_ptr<FrameDecoder> decoder) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(decoder));
  }

  const Source in;
  DirectFile file;
  PagesListing listing;
  std::vector<FrameEntry> frames;
  std::mutex mutex;
  std::vector<std::unique_ptr<FrameDecoder>> idle;  // one per thread that reads, at most
};

PagesReader::PagesReader(int fd, const FileRange& range)
    : state_(std::make_unique<State>(fd, range)) {}

PagesReader::~PagesReader() = default;

const PagesOptions& PagesReader::options() const { return state_->listing.options; }
const PagesSummary& PagesReader::summary() const { return state_->listing.summary; }
const std::vector<BufferEntry>& PagesReader::buffers() const { return state_->listing.buffers; }

FrameEntry PagesReader::frame(std::uint64_t index) const {
  if (index >= state_->frames.size()) {
    throw Error(ErrorCode::protocol, std::string(kSubject) + ": no such frame");
  }
  return state_->frames[index];
}

void PagesReader::read_range(std::uint64_t offset, std::span<std::byte> out) const {
  const Source& in = state_->in;
  require(offset <= in.length && out.size() <= in.length - offset, "points beyond its end");
  state_->file.read(out, in.base + offset, kSubject);
}

std::uint64_t PagesReader::direct_bytes() const { return state_->file.direct_bytes(); }

void PagesReader::read_stored(std::uint64_t index, std::span<std::byte> out) const {
  const FrameEntry entry = frame(index);
  if (out.size() != entry.stored) {
    throw Error(ErrorCode::protocol,
                std::string(kSubject) + ": room of a wrong length for a frame");
  }
  read_range(entry.offset, out);
}

void PagesReader::read_frame(std::uint64_t index, std::span<std::byte> out) const {
  const FrameEntry entry = frame(index);
  if (out.size() != entry.raw) {
    throw Error(ErrorCode::protocol,
                std::string(kSubject) + ": room of a wrong length for a frame");
  }
  if (entry.codec == Codec::reference) {
    throw Error(ErrorCode::unsupported, std::string(kSubject) + ": frame " + std::to_string(index) +
                                            " is in the parent image");
  }
  if (entry.codec == Codec::sibling) {
    throw Error(ErrorCode::unsupported, std::string(kSubject) + ": frame " + std::to_string(index) +
                                            " is in another file of the image");
  }
  std::unique_ptr<FrameDecoder> decoder = state_->take_decoder();
  const std::span<std::byte> stored =
      entry.codec == Codec::raw ? out : decoder->scratch(entry.stored);
  read_range(entry.offset, stored);
  decoder->decode(entry, index, stored, out);
  state_->give_back(std::move(decoder));
}

void PagesReader::expect(std::uint32_t process, std::uint32_t gpu,
                         const std::optional<std::array<std::uint8_t, 16>>& root) const {
  const auto corrupt = [&](const char* reason) {
    return Error(ErrorCode::corrupt, pages_file_name(process, gpu) + ": " + reason);
  };
  if (root && *root != summary().root) {
    throw corrupt("its index does not match the digest in the manifest");
  }
  if (options().process != process || options().gpu != gpu) {
    throw corrupt("belongs to another process or GPU");
  }
}

}  // namespace kfdcp
