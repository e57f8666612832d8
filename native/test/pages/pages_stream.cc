// PagesStreamCheck on what the writer makes, cut anywhere.
#include <doctest/doctest.h>

#include "core/pages/pages_check.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {
namespace {

Bytes sample(std::vector<Content>& buffers) {
  PagesOptions options;
  options.compress = Compress::zstd;
  options.frame_bytes = 1u << 20;
  options.process = 2;
  options.gpu = 1;
  Bytes sparse(3u << 20);
  sparse[(1u << 20) + 1] = std::byte{1};
  buffers = {{1, noise((1u << 20) + 5, 1)}, {2, sparse}, {3, text(70000, 3)}};
  const UniqueFd fd = memory_file();
  write_pages(fd.get(), options, buffers);
  return content_of(fd.get());
}

TEST_CASE("pages stream: accepts a file in pieces of any size, and lists it as the reader does") {
  std::vector<Content> buffers;
  const Bytes file = sample(buffers);
  const UniqueFd fd = memory_file(file);
  const PagesListing expected = list_pages(fd.get());
  for (const std::size_t piece : {std::size_t{61}, std::size_t{4096}, file.size()}) {
    PagesStreamCheck check;
    for (std::span<const std::byte> rest(file); !rest.empty();) {
      const auto part = rest.first(std::min(piece, rest.size()));
      check.feed(part);
      rest = rest.subspan(part.size());
    }
    const PagesListing listing = check.finish();
    CHECK(listing.summary.root == expected.summary.root);
    CHECK(listing.summary.content_bytes == expected.summary.content_bytes);
    CHECK(listing.summary.file_bytes == file.size());
    CHECK(listing.summary.frames == expected.summary.frames);
    CHECK(listing.summary.zero_frames == expected.summary.zero_frames);
    CHECK(listing.options.process == 2);
    CHECK(listing.options.gpu == 1);
    REQUIRE(listing.buffers.size() == 3);
    CHECK(listing.buffers[1].id == 2);
    CHECK(listing.buffers[1].size == 3u << 20);
  }
}

TEST_CASE("pages stream: a file without buffers, and one of more than a page of frames") {
  PagesOptions options;
  options.frame_bytes = 1u << 20;
  const UniqueFd empty = memory_file();
  write_pages(empty.get(), options, {});
  PagesStreamCheck none;
  none.feed(content_of(empty.get()));
  CHECK(none.finish().buffers.empty());

  const UniqueFd fd = memory_file();
  PagesWriter writer(fd.get(), options);
  for (std::uint32_t id = 0; id < 1500; ++id) {
    writer.begin_buffer(id, 64);
    writer.append(id % 3 == 0 ? Bytes(64) : noise(64, id));
  }
  const PagesSummary written = writer.finish();
  PagesStreamCheck many;
  many.feed(content_of(fd.get()));
  CHECK(many.finish().summary.root == written.root);
  const PagesReader reader(fd.get());
  CHECK(reader.summary().root == written.root);
  Bytes out(64);
  reader.read_frame(1499, out);
  CHECK(out == noise(64, 1499));
}

TEST_CASE("pages stream: a file that ends early or continues") {
  std::vector<Content> buffers;
  const Bytes file = sample(buffers);
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{4096}, std::size_t{9000}, file.size() - 64, file.size() - 1}) {
    PagesStreamCheck check;
    check.feed({file.data(), n});
    CHECK(code_of([&] { check.finish(); }) == ErrorCode::corrupt);
  }
  PagesStreamCheck check;
  check.feed(file);
  const std::byte more{};
  CHECK(code_of([&] { check.feed({&more, 1}); }) == ErrorCode::corrupt);
  CHECK(code_of([&] { check.feed({&more, 1}); }) == ErrorCode::protocol);
  CHECK(code_of([&] { check.finish(); }) == ErrorCode::protocol);
}

TEST_CASE("pages stream: frames in another order than the index are accepted by both readers") {
  // Buffers 10 and 11 are one raw frame of 64 bytes each; their records change places in the index.
  PagesOptions options;
  options.frame_bytes = 1u << 20;
  const UniqueFd fd = memory_file();
  write_pages(fd.get(), options, {{10, noise(64, 1)}, {11, noise(64, 2)}});
  Bytes file = content_of(fd.get());
  const Anatomy at(file);
  using R = layout::FrameRecord;
  const R first = block_at<R>(file, at.records);
  put_block(file, at.records, block_at<R>(file, at.records + sizeof(R)));
  put_block(file, at.records + sizeof(R), first);
  reseal(file);
  PagesStreamCheck check;
  check.feed(file);
  CHECK(check.finish().summary.frames == 2);
  const UniqueFd swapped = memory_file(file);
  CHECK(read_pages(PagesReader(swapped.get())) ==
        std::vector<Content>{{10, noise(64, 2)}, {11, noise(64, 1)}});
}

TEST_CASE("pages stream: damage that only a stream can see") {
  std::vector<Content> buffers;
  const Bytes good = sample(buffers);
  const auto refused = [](const Bytes& file) {
    return code_of([&] {
             PagesStreamCheck check;
             check.feed(file);
             check.finish();
           }) == ErrorCode::corrupt;
  };
  Bytes file = good;
  file[sizeof(layout::Header) + sizeof(layout::FrameRecord)] = std::byte{1};  // padding
  CHECK(refused(file));
  file = good;
  file[sizeof(layout::Header) + offsetof(layout::FrameRecord, checksum)] ^= std::byte{1};
  CHECK(refused(file));
  // A frame that the index lacks: its record there becomes a zero frame.
  const Anatomy at(good);
  CHECK(refused(forged<layout::FrameRecord>(good, at.records, [](layout::FrameRecord& record) {
    record.codec = 0;
    record.offset = record.checksum = record.stored = 0;
  })));
}

}  // namespace
}  // namespace kfdcp::test
