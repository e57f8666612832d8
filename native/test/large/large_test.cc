// Sizes beyond 32 bits on every path of contents.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "core/os/page_memory.h"
#include "core/pages/frame_codec.h"
#include "core/pages/hash.h"
#include "core/pages/pages_chain.h"
#include "core/pages/pages_check.h"
#include "core/transfer/transfer.h"
#include "test/large/sparse_device.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::uint64_t kContent = 300 * kGiB;
constexpr std::uint32_t kFrame = 4u << 20;
constexpr EngineOptions kRing{.slots = 8, .slot_bytes = kFrame};
constexpr TransferOptions kWork{.workers = 2};
const PagesOptions kPages{.compress = Compress::automatic, .share = true, .frame_bytes = kFrame};

struct Shape {
  std::uint64_t size;
  std::vector<std::uint64_t> noisy;
};

/// 300 GiB: BOs beyond 4 GiB, 64 GiB and 128 GiB, one that ends within a frame, a thousand small
/// ones. Noise is on both sides of each power of two, and in the last page.
std::vector<Shape> shapes() {
  std::vector<Shape> all = {
      {140 * kGiB, {0, 4 * kGiB - 4096, 4 * kGiB, 64 * kGiB - 4096, 64 * kGiB, 128 * kGiB}},
      {70 * kGiB + 3 * 4096, {8 * kGiB - 4096, 65 * kGiB + 8192}},
      {5 * kGiB, {}},
  };
  for (std::uint64_t i = 0; i < 1000; ++i) {
    all.push_back({64u << 10, {}});
    if (i % 100 == 7) all.back().noisy.push_back(i % 16 * 4096);
  }
  std::uint64_t sum = 0;
  for (const Shape& shape : all) sum += shape.size;
  all.push_back({kContent - sum, {32 * kGiB, 32 * kGiB + 4096}});
  for (Shape& shape : all) {
    if (shape.size > kGiB) shape.noisy.push_back(shape.size - 4096);
  }
  return all;
}

std::vector<ContentBuffer> buffers_of(const std::vector<Shape>& shapes) {
  std::vector<ContentBuffer> buffers;
  for (const Shape& shape : shapes) {
    const auto id = static_cast<std::uint32_t>(buffers.size());
    buffers.push_back({id, shape.size, sparse_buffer(shape.size, shape.noisy, id)});
  }
  return buffers;
}

std::vector<ContentBuffer> empty_buffers_of(std::vector<Shape> shapes) {
  for (Shape& shape : shapes) shape.noisy.clear();
  return buffers_of(shapes);
}

PagesSummary drained(const std::vector<ContentBuffer>& buffers, int file,
                     const PagesReader* parent) {
  SparseEngine engine(kRing);
  PagesWriter out(file, kPages, parent);
  TransferProgress progress;
  const TransferStats stats = drain(engine, buffers, out, kWork, {}, progress);
  CHECK(engine.breaches == std::vector<std::string>{});
  CHECK(engine.bytes == kContent);
  CHECK(stats.bytes == kContent);
  CHECK(progress.bytes_done == kContent);
  return out.finish();
}

/// What the pages file restores is what the buffers hold, at the same places.
void check_upload(int file, const std::vector<ContentBuffer>& buffers,
                  const std::vector<Shape>& shapes) {
  const PagesReader in(file);
  const auto targets = empty_buffers_of(shapes);
  SparseEngine engine(kRing);
  TransferProgress progress;
  const TransferStats stats = upload(engine, targets, in, kWork, {}, progress);
  CHECK(engine.breaches == std::vector<std::string>{});
  CHECK(engine.bytes == in.summary().content_bytes);
  CHECK(stats.bytes == in.summary().content_bytes);
  CHECK(progress.bytes_done == in.summary().content_bytes);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    CAPTURE(i);
    CHECK(pages_of_noise(targets[i].dmabuf.get()) == pages_of_noise(buffers[i].dmabuf.get()));
  }
}

PagesListing checked_stream(int file) {
  PagesStreamCheck check;
  std::uint64_t at = 0;
  const PagesReader in(file);
  for (Bytes piece(1u << 20); at < in.summary().file_bytes; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), in.summary().file_bytes - at));
    read_exactly(file, piece, at, "pages file");
    check.feed(piece);
  }
  return check.finish();
}

}  // namespace

TEST_CASE("large: 300 GiB of sparse buffers there and back, with a parent and without") {
  auto shape = shapes();
  std::uint64_t noisy = 0;
  for (const Shape& one : shape) noisy += one.noisy.size();
  const auto buffers = buffers_of(shape);
  std::uint64_t held = 0;
  for (const auto& buffer : buffers) held += pages_of_noise(buffer.dmabuf.get()).size();
  REQUIRE(held == noisy);

  const UniqueFd file = memory_file();
  const PagesSummary summary = drained(buffers, file.get(), nullptr);
  CHECK(summary.content_bytes == kContent);
  const PagesListing listed = list_pages(file.get());
  const PagesListing streamed = checked_stream(file.get());
  for (const PagesListing& listing : {listed, streamed}) {
    CHECK(listing.summary.content_bytes == kContent);
    CHECK(listing.summary.frames == summary.frames);
    CHECK(listing.summary.zero_frames == summary.zero_frames);
    CHECK(listing.summary.root == summary.root);
    REQUIRE(listing.buffers.size() == buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      CHECK(listing.buffers[i].size == buffers[i].size);
    }
  }
  check_upload(file.get(), buffers, shape);

  // One page behind the 64th GiB is new.
  shape[0].noisy.push_back(100 * kGiB + 4096);
  const auto later = buffers_of(shape);
  const PagesReader parent(file.get());
  const UniqueFd delta = memory_file();
  const PagesSummary changes = drained(later, delta.get(), &parent);
  CHECK(changes.content_bytes == kContent);
  CHECK(changes.references == summary.frames - summary.zero_frames);
  CHECK(changes.zero_frames == summary.zero_frames - 1);
  const PagesReader child(delta.get());
  const UniqueFd flat = memory_file();
  CHECK(flatten_pages({&child, &parent}, flat.get()).content_bytes == kContent);
  check_upload(flat.get(), later, shape);
}

TEST_CASE("large: frames stored beyond 4 GiB of a pages file") {
  const PagesOptions options{.frame_bytes = kFrame};
  const std::vector<Shape> shape = {{4 * kGiB + kGiB / 4, {}}, {kFrame + 8192, {0, kFrame + 4096}}};
  const auto buffers = buffers_of(shape);
  const UniqueFd file = memory_file();
  PagesWriter out(file.get(), options);
  // Zeros stored as they are, which no encoder does: they can be taken out of the file again, and
  // it reads the same.
  const Mapping zeros = page_memory(kFrame);
  const EncodedFrame raw{Codec::raw, xxh3_64(zeros.bytes()), zeros.bytes()};
  out.begin_buffer(0, shape[0].size);
  for (std::uint64_t done = 0; done < shape[0].size; done += kFrame) {
    const PlacedFrame placed = out.place(kFrame, raw);
    out.write({&placed, 1}, {&raw, 1});
    REQUIRE(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(placed.entry.offset), kFrame) == 0);
  }
  const Bytes last = content_of(buffers[1].dmabuf.get());
  out.begin_buffer(1, last.size());
  out.append(std::span(last).first(kFrame));
  out.append(std::span(last).subspan(kFrame));
  const PagesSummary summary = out.finish();
  CHECK(summary.file_bytes > shape[0].size);
  CHECK(summary.zero_frames == 0);
  CHECK(checked_stream(file.get()).summary.root == summary.root);
  check_upload(file.get(), buffers, shape);

  // The last bit of what is stored last counts.
  const PagesReader in(file.get());
  const FrameEntry end = in.frame(summary.frames - 1);
  CHECK(end.offset > 4 * kGiB);
  const std::byte wrong = ~last.back();
  REQUIRE(::pwrite(file.get(), &wrong, 1, static_cast<off_t>(end.offset + end.stored - 1)) == 1);
  Bytes content(end.raw);
  CHECK(code_of([&] { in.read_frame(summary.frames - 1, content); }) == ErrorCode::corrupt);
}
