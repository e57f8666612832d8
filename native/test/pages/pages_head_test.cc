// What comes first of a pages file: a stream is refused there, before the rest has come. Without
// that its counts would decide how much memory the rest is given.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "core/pages/frame_bytes.h"
#include "core/pages/pages_check.h"
#include "core/pages/pages_layout.h"
#include "test/os/error_code.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_sample.h"

namespace kfdcp::test {
namespace {

using H = layout::Header;
using I = layout::IndexHeader;

template <typename Block>
Block sealed(Block block) {
  block.checksum = layout::block_checksum(block);
  return block;
}

/// Of a file whose frames may be in its parent, and in other files of the image.
H header(std::uint64_t features = layout::kReferences | layout::kSiblings) {
  H out{};
  std::memcpy(out.magic, layout::kHeaderMagic, sizeof(out.magic));
  out.version = layout::kVersion;
  out.header_bytes = sizeof(out);
  out.required_features = features;
  out.optional_features = layout::kDigests;
  out.digest_algorithm = layout::kDigestXxh3;
  out.frame_bytes = layout::kMinFrameBytes;
  out.parent[0] = (features & layout::kReferences) != 0 ? 1 : 0;
  return sealed(out);
}

/// Of a file that stores nothing: its ten frames are zero, or elsewhere.
I index(std::uint32_t references = 3, std::uint32_t siblings = 2, std::uint64_t zero = 5) {
  I out{};
  std::memcpy(out.magic, layout::kIndexMagic, sizeof(out.magic));
  out.buffers = 1;
  out.records_per_page = layout::kRecordsPerPage;
  out.frames = 10;
  out.zero_frames = zero;
  out.references = references;
  out.siblings = siblings;
  return sealed(out);
}

/// What a stream is refused for when no more than these have come.
std::optional<ErrorCode> code_after(const H& header) {
  PagesStreamCheck check;
  return code_of([&] { check.feed(bytes_of(header)); });
}
std::optional<ErrorCode> code_after(const H& header, const I& index) {
  PagesStreamCheck check;
  check.feed(bytes_of(header));
  return code_of([&] { check.feed(bytes_of(index)); });
}

template <typename Change>
I changed(Change&& change) {
  I out = index();
  change(out);
  return sealed(out);
}

TEST_CASE("pages stream: a damaged header, or index header, is refused before anything follows") {
  CHECK(code_after(header()) == std::nullopt);
  CHECK(code_after(header(), index()) == std::nullopt);
  H other_process = header();
  other_process.process ^= 1;
  CHECK(code_after(other_process) == ErrorCode::corrupt);
  I other_size = index();
  other_size.content_bytes ^= 1;
  CHECK(code_after(header(), other_size) == ErrorCode::corrupt);
}

TEST_CASE("pages stream: counts that no file can have are refused before room is made for them") {
  const auto refused = [](auto&& change) {
    return code_after(header(), changed(change)) == ErrorCode::corrupt;
  };
  CHECK(code_after(header(), changed([](I& i) { i.buffers = layout::kMaxBuffers; })) ==
        std::nullopt);
  CHECK(code_after(header(), changed([](I& i) { i.frames = layout::kMaxFrames; })) == std::nullopt);
  CHECK(refused([](I& i) { i.buffers = layout::kMaxBuffers + 1; }));
  CHECK(refused([](I& i) { i.frames = layout::kMaxFrames + 1; }));
  CHECK(refused([](I& i) { i.frames = ~0ull; }));
}

TEST_CASE("pages stream: more frames of one kind than frames are refused at the index header") {
  CHECK(code_after(header(), index(3, 2, 11)) == ErrorCode::corrupt);
  CHECK(code_after(header(), index(5, 0, 5)) == std::nullopt);
  CHECK(code_after(header(), index(6, 0, 5)) == ErrorCode::corrupt);
  CHECK(code_after(header(), index(3, 3, 5)) == ErrorCode::corrupt);
  CHECK(code_after(header(), index(0, 0xffffffff, 5)) == ErrorCode::corrupt);
}

TEST_CASE("pages stream: counts of what the header does not announce are refused at once") {
  const H siblings = header(layout::kSiblings), references = header(layout::kReferences);
  CHECK(code_after(siblings, index(0, 2)) == std::nullopt);
  CHECK(code_after(siblings, index(1, 2)) == ErrorCode::corrupt);
  CHECK(code_after(references, index(3, 0)) == std::nullopt);
  CHECK(code_after(references, index(3, 1)) == ErrorCode::corrupt);
}

TEST_CASE("pages stream: a frame that says it lies elsewhere is refused before it has come") {
  using R = layout::FrameRecord;
  const PagesSample sample;
  const auto code = [&](auto&& change) {
    auto record = block_at<R>(sample.file, sizeof(H));
    change(record);
    PagesStreamCheck check;
    check.feed(std::span(sample.file).first(sizeof(H)));
    return code_of([&] { check.feed(bytes_of(record)); });
  };
  CHECK(code([](R&) {}) == std::nullopt);
  for (const std::uint64_t bad : {0ull, 4096ull, 8128ull, 8256ull, 1ull << 40, ~0ull - 4095}) {
    CHECK(code([&](R& r) { r.offset = bad; }) == ErrorCode::corrupt);
  }
  // A zero frame is in the index only.
  CHECK(code([](R& r) { r.codec = 0, r.stored = 0, r.offset = r.checksum = 0; }) ==
        ErrorCode::corrupt);
}

}  // namespace
}  // namespace kfdcp::test
