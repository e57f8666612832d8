// Contents that are stored once: within a file, and in the parent of one.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <optional>
#include <stop_token>
#include <vector>

#include "core/pages/hash.h"
#include "core/pages/pages_chain.h"
#include "core/pages/pages_check.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_util.h"
#include "test/pages/sibling_image.h"

namespace kfdcp::test {
namespace {

constexpr std::uint32_t kFrame = 1u << 20;

PagesOptions sharing(Compress compress = Compress::none) {
  PagesOptions out;
  out.compress = compress;
  out.share = true;
  out.frame_bytes = kFrame;
  out.process = 1;
  return out;
}

/// A file in memory and its reader.
struct Image {
  Image(const PagesOptions& options, const std::vector<Content>& buffers,
        const PagesReader* parent = nullptr)
      : fd(memory_file()) {
    PagesWriter writer(fd.get(), options, parent);
    written = write_buffers(writer, options, buffers);
    reader = std::make_unique<PagesReader>(fd.get());
  }
  explicit Image(const Bytes& bytes) : fd(memory_file(bytes)) {
    reader = std::make_unique<PagesReader>(fd.get());
  }
  UniqueFd fd;
  PagesSummary written;
  std::unique_ptr<PagesReader> reader;
};

std::vector<Content> flat(const std::vector<ChainFile>& chain) {
  const UniqueFd fd = memory_file();
  const PagesSummary summary = flatten_pages(chain, fd.get());
  CHECK(summary.parent == Digest128{});
  const PagesReader reader(fd.get());
  CHECK(reader.summary().root == summary.root);
  CHECK(reader.options().process == chain[0].file->options().process);
  PagesStreamCheck check;
  check.feed(content_of(fd.get()));
  CHECK(check.finish().summary.root == summary.root);
  return read_pages(reader);
}

std::optional<ErrorCode> chain_code(const std::vector<ChainFile>& chain) {
  const UniqueFd fd = memory_file();
  return code_of([&] { flatten_pages(chain, fd.get()); });
}

TEST_CASE("share: equal frames of a file are stored once, in whatever buffer") {
  const Bytes a = noise(kFrame, 1), b = noise(kFrame, 2), rest = noise(500, 3);
  const std::vector<Content> buffers{
      {1, joined({a, b, a, rest})}, {2, joined({b, rest})}, {3, Bytes(kFrame)}, {4, a}};
  for (const Compress compress : {Compress::none, Compress::lz4, Compress::zstd}) {
    const Image image(sharing(compress), buffers);
    CHECK(read_pages(*image.reader) == buffers);
    const PagesReader& reader = *image.reader;
    CHECK(reader.frame(0) == reader.frame(2));
    CHECK(reader.frame(0) == reader.frame(7));
    CHECK(reader.frame(1) == reader.frame(4));
    CHECK(reader.frame(0).digest == xxh3_128(a));
    CHECK(reader.summary().file_bytes < 2 * kFrame + 30000);
    CHECK(reader.summary().references == 0);
    PagesStreamCheck check;
    check.feed(content_of(image.fd.get()));
    CHECK(check.finish().summary.root == reader.summary().root);
  }
  // The same lengths and the same start are not enough.
  Bytes nearly = a;
  nearly.back() ^= std::byte{1};
  const Image two(sharing(), {{1, a}, {2, nearly}});
  CHECK(two.reader->summary().file_bytes > 2 * kFrame);
}

TEST_CASE(
    "share: records that name the same bytes otherwise, and frames nobody names, are refused") {
  const Image image(sharing(), {{1, noise(64, 1)}, {2, noise(64, 1)}, {3, noise(64, 2)}});
  const Bytes file = content_of(image.fd.get());
  const Anatomy at(file);
  using R = layout::FrameRecord;
  const auto refused = [](const Bytes& bytes) {
    const UniqueFd fd = memory_file(bytes);
    const auto stream = [&] {
      PagesStreamCheck check;
      check.feed(bytes);
      check.finish();
    };
    return code_of([&] { PagesReader reader(fd.get()); }) == ErrorCode::corrupt &&
           code_of(stream) == ErrorCode::corrupt;
  };
  CHECK(refused(forged<R>(file, at.records + sizeof(R), [](R& r) { ++r.checksum; })));
  CHECK(refused(forged<R>(file, at.records + sizeof(R), [](R& r) { r.digest[3] ^= 1; })));
  CHECK(refused(forged<R>(file, at.records, [](R& r) { r.digest[16] = 1; })));
  CHECK(refused(forged<R>(file, at.records, [](R& r) { std::fill_n(r.digest, 32, 0); })));
  Bytes unnamed = file;
  put_block(unnamed, at.records + 2 * sizeof(R), block_at<R>(file, at.records));
  reseal(unnamed);
  CHECK(refused(unnamed));
  // Without the feature each frame is named once.
  CHECK(refused(forged<layout::Header>(
      file, 0, [](layout::Header& h) { h.required_features &= ~layout::kSharedFrames; })));
}

TEST_CASE("share: a digest, or a checksum, that is not the content's is found when it is read") {
  using R = layout::FrameRecord;
  const Image image(sharing(), {{1, noise(64, 1)}});
  const Bytes file = content_of(image.fd.get());
  const auto code_with = [&](auto&& wrong) {
    const Bytes bad = forged<R>(file, Anatomy(file).records, wrong);
    const Image forgery(forged<R>(bad, sizeof(layout::Header), wrong));
    Bytes out(64);
    return code_of([&] { forgery.reader->read_frame(0, out); });
  };
  CHECK(code_with([](R&) {}) == std::nullopt);
  CHECK(code_with([](R& record) { record.digest[0] ^= 1; }) == ErrorCode::corrupt);
  CHECK(code_with([](R& record) { ++record.checksum; }) == ErrorCode::corrupt);
}

TEST_CASE("parent: only what changed is written, and the chain has all of it") {
  const Bytes a = noise(kFrame, 1), b = halves(kFrame, 2), c = text(kFrame, 3);
  const std::vector<Content> first{{1, joined({a, b, Bytes(kFrame)})}, {2, c}};
  const std::vector<Content> second{{7, joined({b, noise(300, 9)})}, {1, joined({a, c})}};
  const std::vector<Content> third{{7, b}, {8, noise(300, 9)}, {9, Bytes(kFrame)}};
  const Image base(sharing(Compress::zstd), first);
  const Image delta(sharing(), second, base.reader.get());
  const Image tip(sharing(Compress::lz4), third, delta.reader.get());

  CHECK(delta.reader->summary().parent == base.reader->summary().root);
  CHECK(delta.written.parent == base.reader->summary().root);
  CHECK(delta.written.references == 3);
  CHECK(delta.written.digests);
  CHECK(delta.reader->summary().digests);
  CHECK(delta.reader->summary().references == 3);
  CHECK(delta.reader->summary().file_bytes < 10000);
  CHECK(tip.reader->summary().references == 2);
  CHECK(delta.reader->frame(0).codec == Codec::reference);
  Bytes out(kFrame);
  CHECK(code_of([&] { delta.reader->read_frame(0, out); }) == ErrorCode::unsupported);
  PagesStreamCheck check;
  check.feed(content_of(delta.fd.get()));
  const PagesSummary streamed = check.finish().summary;
  CHECK(streamed.references == 3);
  CHECK(streamed.digests);

  CHECK(flat({delta.reader.get(), base.reader.get()}) == second);
  CHECK(flat({tip.reader.get(), delta.reader.get(), base.reader.get()}) == third);
  CHECK(flat({base.reader.get()}) == first);

  CHECK(chain_code({delta.reader.get()}) == ErrorCode::corrupt);
  CHECK(chain_code({tip.reader.get(), base.reader.get()}) == ErrorCode::corrupt);
  CHECK(chain_code({tip.reader.get(), delta.reader.get()}) == ErrorCode::corrupt);
  CHECK(chain_code({base.reader.get(), base.reader.get()}) == ErrorCode::corrupt);
}

TEST_CASE("parent: another file with the same frames at the same places is not the parent") {
  const std::vector<Content> buffers{{1, noise(64, 1)}};
  const Image base(sharing(), buffers);
  const Image other(sharing(), {buffers[0], {2, noise(64, 2)}});
  const Image delta(sharing(), buffers, base.reader.get());
  REQUIRE(other.reader->frame(0).digest == base.reader->frame(0).digest);
  CHECK(chain_code({delta.reader.get(), base.reader.get()}) == std::nullopt);
  CHECK(chain_code({delta.reader.get(), other.reader.get()}) == ErrorCode::corrupt);
  CHECK(chain_code({}) == ErrorCode::corrupt);
  // It needs nothing of its parent, but says that it has one.
  const Image fresh(sharing(), {{1, noise(64, 3)}}, base.reader.get());
  REQUIRE(fresh.written.references == 0);
  CHECK(chain_code({fresh.reader.get()}) == ErrorCode::corrupt);
}

TEST_CASE("flatten: one that is cancelled ends before it has written a frame") {
  const Image image(sharing(), {{1, noise(64, 1)}});
  const UniqueFd fd = memory_file();
  std::stop_source stop;
  stop.request_stop();
  CHECK(code_of([&] { flatten_pages({{image.reader.get()}}, fd.get(), stop.get_token()); }) ==
        ErrorCode::cancelled);
  CHECK(content_of(fd.get()).size() <= sizeof(layout::Header));
}

TEST_CASE("parent: unchanged contents take less than two per cent") {
  const std::vector<Content> buffers{{1, noise(16 * kFrame, 1)}, {2, noise(3 * kFrame + 5, 2)}};
  const Image base(sharing(), buffers);
  const Image delta(sharing(), buffers, base.reader.get());
  CHECK(delta.reader->summary().file_bytes * 50 < base.reader->summary().file_bytes);
  CHECK(delta.reader->summary().references == delta.reader->summary().frames);
}

TEST_CASE("parent: its index, with holes for its frames, is all a checkpoint needs of it") {
  const std::vector<Content> buffers{{1, noise(3 * kFrame, 1)}, {2, text(900, 2)}};
  const Image base(sharing(Compress::zstd), buffers);
  const UniqueFd sparse = memory_file();
  PagesStreamCheck check([&](std::uint64_t offset, std::span<const std::byte> bytes) {
    iovec part = write_part(bytes);
    write_exactly(sparse.get(), {&part, 1}, offset, "index");
  });
  check.feed(content_of(base.fd.get()));
  check.finish();
  struct stat st {};
  REQUIRE(::fstat(sparse.get(), &st) == 0);
  CHECK(st.st_blocks * 512 < 64 << 10);
  const PagesReader index(sparse.get());
  CHECK(index.summary().root == base.reader->summary().root);
  const Image delta(sharing(), buffers, &index);
  CHECK(delta.reader->summary().references == delta.reader->summary().frames);
  CHECK(flat({delta.reader.get(), base.reader.get()}) == buffers);
}

TEST_CASE("parent: what cannot be one, and references that lead nowhere") {
  PagesOptions plain = sharing();
  plain.share = false;
  const Image without(plain, {{1, noise(64, 1)}});
  CHECK(!without.reader->summary().digests);
  const Image base(sharing(), {{1, noise(64, 1)}, {2, Bytes(64)}, {3, noise(65, 1)}});
  const UniqueFd fd = memory_file();
  CHECK(code_of([&] { PagesWriter(fd.get(), sharing(), without.reader.get()); }) ==
        ErrorCode::unsupported);
  CHECK(code_of([&] { PagesWriter(fd.get(), plain, base.reader.get()); }) == ErrorCode::protocol);

  const Image delta(sharing(), {{1, noise(64, 1)}}, base.reader.get());
  const Bytes file = content_of(delta.fd.get());
  const Anatomy at(file);
  using R = layout::FrameRecord;
  for (const std::uint64_t number : {1ull, 2ull, 3ull, (1ull << 22) - 1}) {
    CAPTURE(number);
    const Image other(forged<R>(file, at.records, [&](R& r) { r.offset = number; }));
    CHECK(chain_code({other.reader.get(), base.reader.get()}) == ErrorCode::corrupt);
  }
  const auto opens = [&](auto&& change) {
    const UniqueFd bad = memory_file(forged<R>(file, at.records, change));
    return code_of([&] { PagesReader reader(bad.get()); });
  };
  CHECK(opens([](R& r) { r.offset = 1ull << 22; }) == ErrorCode::corrupt);
  CHECK(opens([](R& r) { r.stored = 1; }) == ErrorCode::corrupt);
  const auto header = [&](auto&& change) {
    const UniqueFd bad = memory_file(forged<layout::Header>(file, 0, change));
    return code_of([&] { PagesReader reader(bad.get()); });
  };
  CHECK(header([](auto& h) { std::fill_n(h.parent, 16, 0); }) == ErrorCode::corrupt);
  CHECK(header([](auto& h) { h.required_features &= ~1ull; }) == ErrorCode::corrupt);
}

}  // namespace
}  // namespace kfdcp::test
