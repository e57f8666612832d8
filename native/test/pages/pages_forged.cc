// Forgeries of a pages file whose checksums are all right.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

#include "core/pages/pages_check.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_sample.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {
namespace {

TEST_CASE("pages: forged header") {
  const Bytes file = PagesSample().file;
  const auto forge = [&](auto&& change) { return forged<layout::Header>(file, 0, change); };
  using H = layout::Header;
  CHECK(refused(forge([](H& h) { h.magic[0] = 'k'; })));
  CHECK(refused(forge([](H& h) { h.version = 2; }), ErrorCode::unsupported));
  CHECK(refused(forge([](H& h) { h.version = 0; }), ErrorCode::unsupported));
  CHECK(refused(forge([](H& h) { h.required_features |= 1; })));  // references without a parent
  for (const std::uint64_t bit : {1u, 6u, 63u}) {
    CHECK(
        refused(forge([&](H& h) { h.required_features |= 1ull << bit; }), ErrorCode::unsupported));
  }
  CHECK(refused(forge([](H& h) { h.required_features |= 1 << 5; })));  // siblings, no digests
  CHECK(refused(forge([](H& h) {                                       // references, no digests
    h.required_features |= 1;
    h.parent[0] = 1;
  })));
  CHECK(refused(forge([](H& h) { h.header_bytes = 8192; })));
  for (const std::uint32_t bad : {0u, 4096u, (1u << 20) + 1, 8u << 20, 0xfffff000u}) {
    CHECK(refused(forge([&](H& h) { h.frame_bytes = bad; })));
  }
  CHECK(refused(forge([](H& h) { h.parent[0] = 1; })));
  CHECK(refused(forge([](H& h) { h.encryption[447] = 1; })));
  CHECK(refused(forge([](H& h) { h.reserved[3575] = 1; })));
  CHECK(refused(forge([](H& h) { h.digest_algorithm = 1; })));
}

TEST_CASE("pages: an unknown optional feature, with its fields, is read past") {
  const PagesSample sample;
  Bytes file = forged<layout::Header>(sample.file, 0, [](layout::Header& header) {
    header.optional_features = 1ull << 40;
    header.digest_algorithm = 3;
    header.reserved[9] = 9;
  });
  const Anatomy at(file);
  const auto add_digest = [](layout::FrameRecord& record) { record.digest[31] = 7; };
  file = forged<layout::FrameRecord>(file, at.records, add_digest);
  file = forged<layout::FrameRecord>(file, sizeof(layout::Header), add_digest);
  const UniqueFd fd = memory_file(file);
  CHECK(read_pages(PagesReader(fd.get())) == sample.buffers);
  PagesStreamCheck check;
  check.feed(file);
  CHECK(check.finish().buffers.size() == sample.buffers.size());
}

TEST_CASE("pages: forged index header and footer") {
  const Bytes file = PagesSample().file;
  const Anatomy at(file);
  using I = layout::IndexHeader;
  const auto index = [&](auto&& change) { return forged<I>(file, at.index, change); };
  CHECK(refused(index([](I& i) { i.magic[7] = 0; })));
  CHECK(refused(index([](I& i) { i.buffers = 0; })));
  CHECK(refused(index([](I& i) { i.buffers = 0xffffffff; })));
  CHECK(refused(index([](I& i) { i.buffers = layout::kMaxBuffers; })));
  CHECK(refused(index([](I& i) { i.records_per_page = 0; })));
  for (const std::uint64_t bad : {~0ull, 1ull << 58, 1ull << 22, 0ull, 5ull}) {
    CHECK(refused(index([&](I& i) { i.frames = bad; })));
  }
  CHECK(refused(index([](I& i) { i.zero_frames = 2; })));
  CHECK(refused(index([](I& i) { i.zero_frames = ~0ull; })));
  CHECK(refused(index([](I& i) { ++i.content_bytes; })));
  CHECK(refused(index([](I& i) { --i.stored_bytes; })));
  CHECK(refused(index([](I& i) { i.references = 1; })));
  CHECK(refused(index([](I& i) { i.siblings = 1; })));

  using F = layout::Footer;
  const auto footer = [&](auto&& change) { return forged<F>(file, at.footer, change); };
  for (const std::uint64_t bad : {0ull, 64ull, ~0ull, ~0ull - 63, 1ull << 63}) {
    CHECK(refused(footer([&](F& f) { f.index_offset = bad; })));
  }
  CHECK(refused(footer([&](F& f) { f.index_offset -= 64; })));
  CHECK(refused(footer([](F& f) { ++f.file_bytes; })));
  CHECK(refused(footer([](F& f) { f.reserved[1] = 1; })));
  Bytes other_root = file;
  other_root[at.footer + offsetof(F, root)] ^= std::byte{1};
  reseal_block<F>(other_root, at.footer);
  CHECK(refused(other_root));
}

TEST_CASE("pages: forged buffer table") {
  const Bytes file = PagesSample().file_of_two;
  const Anatomy at(file);
  using B = layout::BufferRecord;
  const auto buffer = [&](auto&& change) { return forged<B>(file, at.tables, change); };
  CHECK(refused(buffer([](B& b) { b.id = 2; })));  // the id of the other one
  CHECK(refused(buffer([](B& b) { b.reserved = 1; })));
  for (const std::uint64_t bad : {0ull, ~0ull, 1ull << 63, 1ull << 20, (1ull << 20) + 65}) {
    CHECK(refused(buffer([&](B& b) { b.size = bad; })));
  }
  CHECK(refused(buffer([](B& b) { b.first_frame = 1; })));
  CHECK(refused(buffer([](B& b) { b.frames = 3; })));
  CHECK(refused(buffer([](B& b) { b.frames = ~0ull, b.size = ~0ull; })));
  CHECK(refused(buffer([](B& b) { b.frames = 4, b.size = 4u << 20; })));
  Bytes padded = file;
  padded[at.records - 1] = std::byte{1};
  reseal(padded);
  CHECK(refused(padded));
}

TEST_CASE("pages: forged frame records") {
  const PagesSample sample;
  const Anatomy at(sample.file);
  using R = layout::FrameRecord;
  const auto frame = [&](std::size_t n, auto&& change) {
    return forged<R>(sample.file, at.records + n * sizeof(R), change);
  };
  CHECK(refused(frame(0, [](R& r) { r.magic[0] = 'X'; })));
  CHECK(refused(frame(0, [](R& r) { r.codec = 3; })));
  CHECK(refused(frame(1, [](R& r) { r.codec = 4; })));  // without its feature
  CHECK(refused(frame(0, [](R& r) { r.codec = 255; })));
  CHECK(refused(frame(0, [](R& r) { r.codec = 0; })));
  CHECK(refused(frame(0, [](R& r) { r.codec = 2; })));
  CHECK(refused(frame(0, [](R& r) { r.flags = 1; })));
  CHECK(refused(frame(0, [](R& r) { r.reserved = 1; })));
  CHECK(refused(frame(0, [](R& r) { r.digest[0] = 1; })));
  for (const std::uint64_t bad : {0ull, 4096ull, 4224ull, ~0ull, ~0ull - 4095}) {
    CHECK(refused(frame(0, [&](R& r) { r.offset = bad; })));
  }
  CHECK(refused(frame(1, [](R& r) { r.codec = 1; })));
  CHECK(refused(frame(1, [](R& r) { --r.stored; })));
  CHECK(refused(frame(1, [](R& r) { r.stored = 0xffffffff; })));
  CHECK(refused(frame(2, [](R& r) { r.raw = 0; })));
  CHECK(refused(frame(2, [](R& r) { r.raw = 4096; })));
  CHECK(refused(frame(2, [](R& r) { r.checksum = 1; })));
  CHECK(refused(frame(2, [](R& r) { r.stored = 1; })));
}

TEST_CASE("pages: two records of one frame, and room between frames and index") {
  PagesOptions options;
  options.frame_bytes = 1u << 20;
  const UniqueFd fd = memory_file();
  write_pages(fd.get(), options, {{1, noise(64, 1)}, {2, noise(64, 2)}});
  const Bytes file = content_of(fd.get());
  const Anatomy at(file);
  using R = layout::FrameRecord;
  // Every length and sum fits.
  Bytes twice = file;
  put_block(twice, at.records + sizeof(R), block_at<R>(twice, at.records));
  reseal(twice);
  CHECK(refused(twice));

  Bytes roomy = file;
  roomy.insert(roomy.begin() + static_cast<std::ptrdiff_t>(at.index), 64, std::byte{0});
  auto footer = block_at<layout::Footer>(roomy, roomy.size() - sizeof(layout::Footer));
  footer.index_offset += 64;
  footer.file_bytes += 64;
  put_block(roomy, roomy.size() - sizeof(footer), footer);
  reseal(roomy);
  CHECK(refused(roomy));
}

}  // namespace
}  // namespace kfdcp::test
