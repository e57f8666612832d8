// Forgeries whose checksums are right and whose lengths and counts add up: one check alone is
// between them and a reader that believes them.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_sample.h"
#include "test/pages/pages_util.h"
#include "test/pages/sibling_replicas.h"

namespace kfdcp::test {
namespace {

using B = layout::BufferRecord;
using F = layout::Footer;
using I = layout::IndexHeader;
using R = layout::FrameRecord;

Bytes file_of(const std::vector<Content>& buffers, Compress compress = Compress::none) {
  PagesOptions options;
  options.compress = compress;
  options.frame_bytes = kSmallFrame;
  const UniqueFd fd = memory_file();
  write_pages(fd.get(), options, buffers);
  return content_of(fd.get());
}

template <typename Block, typename Change>
void alter(Bytes& file, std::size_t offset, Change&& change) {
  auto block = block_at<Block>(file, offset);
  change(block);
  put_block(file, offset, block);
}

/// Room of `bytes` at `offset`, which no block of the file names. The footer knows the new length.
void make_room(Bytes& file, std::size_t offset, std::size_t bytes) {
  file.insert(file.begin() + static_cast<std::ptrdiff_t>(offset), bytes, std::byte{0});
  alter<F>(file, file.size() - sizeof(F), [&](F& footer) { footer.file_bytes += bytes; });
}

bool listed(const Bytes& file) {
  const UniqueFd fd = memory_file(file);
  return code_of([&] { list_pages(fd.get()); }) != ErrorCode::corrupt;
}

TEST_CASE("pages: a footer of another magic is refused") {
  const Bytes file = PagesSample().file;
  const Bytes forgery = forged<F>(file, Anatomy(file).footer, [](F& f) { f.magic[7] = 0; });
  CHECK(refused(forgery));
  CHECK_FALSE(listed(forgery));
}

TEST_CASE("pages: an index at an odd place is refused, and not even listed") {
  Bytes file = PagesSample().file;
  CHECK(listed(file));
  const Anatomy at(file);
  make_room(file, at.index, 32);
  alter<F>(file, file.size() - sizeof(F), [](F& footer) { footer.index_offset += 32; });
  reseal(file);
  CHECK(refused(file));
  CHECK_FALSE(listed(file));
}

TEST_CASE("pages: room between the records and the footer is refused") {
  Bytes file = PagesSample().file;
  make_room(file, Anatomy(file).footer, 64);
  reseal(file);
  CHECK(refused(file));
  CHECK_FALSE(listed(file));
}

TEST_CASE("pages: a frame that was moved from one buffer to the next is refused") {
  // Zero frames alone: nothing but the tables tells how long they are.
  Bytes file = file_of({{1, Bytes(kSmallFrame + 64)}, {2, Bytes(64)}});
  const Anatomy at(file);
  REQUIRE(at.frames == 3);
  alter<B>(file, at.tables, [](B& b) { b.frames = 1; });
  alter<B>(file, at.tables + sizeof(B), [](B& b) { b.first_frame = 1, b.frames = 2; });
  alter<R>(file, at.records + 2 * sizeof(R), [](R& r) { r.raw = kSmallFrame; });
  reseal(file);
  CHECK(refused(file));
}

TEST_CASE("pages: a raw frame that stores less than its content is refused") {
  Bytes content = noise(300, 1);
  content.back() = std::byte{0};  // then what is not stored looks like padding
  Bytes file = file_of({{1, content}});
  const Anatomy at(file);
  for (const std::size_t place : {sizeof(layout::Header), at.records}) {
    alter<R>(file, place, [](R& r) { --r.stored; });
  }
  alter<I>(file, at.index, [](I& i) { --i.stored_bytes; });
  reseal(file);
  CHECK(refused(file));
}

TEST_CASE("pages: a packed frame as long as its content is refused") {
  Bytes file = file_of({{1, text(3000, 2)}}, Compress::zstd);
  const Anatomy at(file);
  const auto packed = block_at<R>(file, at.records);
  REQUIRE(packed.codec == static_cast<std::uint8_t>(Codec::zstd));
  for (const std::size_t place : {sizeof(layout::Header), at.records}) {
    alter<R>(file, place, [&](R& r) { r.raw = packed.stored; });
  }
  alter<I>(file, at.index, [&](I& i) { i.content_bytes = packed.stored; });
  alter<B>(file, at.tables, [&](B& b) { b.size = packed.stored; });
  reseal(file);
  CHECK(refused(file));
}

/// Frames of a parent, of another file, and its own.
struct Delta {
  Delta() {
    SiblingImage old;
    old.write(sibling_options(0, 1), {{1, noise(64, 1)}});
    const auto parent = old.reader(kSecond);
    SiblingImage image;
    image.write(sibling_options(0, 0), {{1, noise(64, 2)}});
    image.write(sibling_options(0, 1), {{1, noise(64, 1)}, {2, noise(64, 2)}, {3, noise(64, 3)}},
                parent.get());
    file = image.bytes(kSecond);
    const auto head = block_at<I>(file, Anatomy(file).index);
    REQUIRE(head.references == 1);
    REQUIRE(head.siblings == 1);
  }
  Bytes file;
};

TEST_CASE("pages: other counts of references and siblings than there are records are refused") {
  const Bytes file = Delta().file;
  const std::size_t index = Anatomy(file).index;
  REQUIRE(open_code(file) == std::nullopt);
  REQUIRE(stream_code(file) == std::nullopt);
  for (const std::uint32_t count : {0u, 2u}) {
    CHECK(refused(forged<I>(file, index, [&](I& i) { i.references = count; })));
    CHECK(refused(forged<I>(file, index, [&](I& i) { i.siblings = count; })));
  }
}

TEST_CASE("pages: a record that is not what its page's digest says is refused") {
  // What a reference names is in another file: nothing else in this one tells of the change.
  Bytes file = Delta().file;
  alter<R>(file, Anatomy(file).records, [](R& r) { ++r.checksum; });
  CHECK(refused(file));
}

}  // namespace
}  // namespace kfdcp::test
