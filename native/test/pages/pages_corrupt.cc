// No damage and no forgery of a pages file gives other content without an error.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>

#include "core/pages/pages_check.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {
namespace {

/// Every codec, several buffers, one of two frames; small enough to change every bit of it.
struct Sample {
  explicit Sample(Compress compress = Compress::zstd, const Bytes& packed = text(3000, 2)) {
    PagesOptions options;
    options.compress = compress;
    options.frame_bytes = 1u << 20;
    Bytes two_frames(options.frame_bytes + 64);
    two_frames.back() = std::byte{1};
    buffers = {{5, noise(300, 1)}, {6, packed}, {7, Bytes(512)}, {8, noise(64, 3)}};
    const UniqueFd fd = memory_file();
    write_pages(fd.get(), options, buffers);
    file = content_of(fd.get());
    buffers_of_two = {{9, two_frames}, {2, noise(100, 4)}};
    const UniqueFd other = memory_file();
    write_pages(other.get(), options, buffers_of_two);
    file_of_two = content_of(other.get());
  }
  std::vector<Content> buffers, buffers_of_two;
  Bytes file, file_of_two;
};

std::optional<ErrorCode> open_code(const Bytes& file) {
  const UniqueFd fd = memory_file(file);
  return code_of([&] { PagesReader reader(fd.get()); });
}

std::optional<ErrorCode> stream_code(const Bytes& file) {
  return code_of([&] {
    PagesStreamCheck check;
    check.feed(file);
    check.finish();
  });
}

/// Both readers refuse it for the same kind of reason.
bool refused(const Bytes& file, ErrorCode code = ErrorCode::corrupt) {
  return open_code(file) == code && stream_code(file) == code;
}

/// Which bytes of the file are stored content, and of which codec.
Codec codec_at(const PagesReader& reader, std::size_t offset) {
  for (std::uint64_t i = 0; i < reader.summary().frames; ++i) {
    const FrameEntry frame = reader.frame(i);
    if (offset >= frame.offset && offset - frame.offset < frame.stored) return frame.codec;
  }
  return Codec::zero;  // not content
}

/// The ways each byte is changed in: one bit, another one from byte to byte, and all bits.
std::array<std::byte, 2> wrong_bytes(const Bytes& file, std::size_t offset) {
  return {file[offset] ^ (std::byte{1} << (offset % 8)), ~file[offset]};
}

/// Codecs of which a few bits have no meaning, or two encodings the same one.
bool is_packed(Codec codec) { return codec != Codec::raw && codec != Codec::zero; }

const Sample& sample_of(Codec codec) {
  static const Sample zstd, lz4(Compress::lz4), planes(Compress::zstd, halves(16500, 2));
  return codec == Codec::zstd ? zstd : codec == Codec::lz4 ? lz4 : planes;
}

constexpr Codec kPacked[] = {Codec::zstd, Codec::lz4, Codec::planes};

TEST_CASE("pages: every changed byte is an error or harmless") {
  for (const Codec packed : kPacked) {
    const Sample& sample = sample_of(packed);
    const UniqueFd good_fd = memory_file(sample.file);
    const PagesReader good(good_fd.get());
    REQUIRE(good.frame(1).codec == packed);
    const Anatomy at(sample.file);
    const UniqueFd fd = memory_file(sample.file);
    for (std::size_t i = 0; i < sample.file.size(); ++i) {
      for (const std::byte wrong : wrong_bytes(sample.file, i)) {
        REQUIRE(::pwrite(fd.get(), &wrong, 1, static_cast<off_t>(i)) == 1);
        try {
          const PagesReader reader(fd.get());
          if (read_pages(reader) != sample.buffers) FAIL("byte " << i << " changes the content");
          // Padding and the records beside the frames are only used by readers of a stream; a few
          // bits of a packed frame have no meaning.
          if (i < sizeof(layout::Header) || i >= at.index || codec_at(good, i) == Codec::raw) {
            FAIL("byte " << i << " is not checked");
          }
        } catch (const Error& error) {
          if (error.code == ErrorCode::io) FAIL("byte " << i << " is an I/O error");
        }
      }
      REQUIRE(::pwrite(fd.get(), &sample.file[i], 1, static_cast<off_t>(i)) == 1);
    }
  }
}

TEST_CASE(
    "pages: every changed byte is an error in a stream, but where its codec gives it no meaning") {
  for (const Codec packed : kPacked) {
    const Sample& sample = sample_of(packed);
    const UniqueFd good_fd = memory_file(sample.file);
    const PagesReader good(good_fd.get());
    Bytes file = sample.file;
    for (std::size_t i = 0; i < file.size(); ++i) {
      for (const std::byte wrong : wrong_bytes(sample.file, i)) {
        file[i] = wrong;
        PagesStreamCheck check;
        try {
          check.feed(file);
          check.finish();
          if (!is_packed(codec_at(good, i))) FAIL("byte " << i << " is not checked");
        } catch (const Error& error) {
          if (error.code == ErrorCode::io) FAIL("byte " << i << " is an I/O error");
        }
      }
      file[i] = sample.file[i];
    }
  }
}

TEST_CASE("pages: every truncation and any addition is an error") {
  const Sample sample;
  const UniqueFd fd = memory_file(sample.file);
  for (std::size_t n = sample.file.size(); n-- > 0;) {
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(n)) == 0);
    CHECK(code_of([&] { PagesReader reader(fd.get()); }) == ErrorCode::corrupt);
  }
  Bytes longer = sample.file;
  longer.resize(longer.size() + 64);
  CHECK(refused(longer));
}

TEST_CASE("pages: forged header") {
  const Bytes file = Sample().file;
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
  const Sample sample;
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
  const Bytes file = Sample().file;
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
  const Bytes file = Sample().file_of_two;
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
  const Sample sample;
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

TEST_CASE("pages: what cannot be read at all") {
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(code_of([&] { PagesReader reader(null.get()); }) == ErrorCode::corrupt);
  CHECK(code_of([&] { PagesReader reader(-1); }) == ErrorCode::io);
  const UniqueFd file = memory_file(Sample().file);
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  const UniqueFd write_only(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(code_of([&] { PagesReader reader(write_only.get()); }) == ErrorCode::io);
  const PagesReader reader(file.get());
  Bytes out(reader.frame(0).raw + 1);
  CHECK(code_of([&] { reader.read_frame(0, out); }) == ErrorCode::protocol);
}

TEST_CASE("pages: content that does not match its checksum is refused when it is read") {
  const Sample sample;
  const UniqueFd good = memory_file(sample.file);
  const PagesReader reader(good.get());
  for (const std::uint64_t n : {0u, 1u, 3u}) {
    const FrameEntry frame = reader.frame(n);
    Bytes file = sample.file;
    file[frame.offset + frame.stored / 2] ^= std::byte{4};
    const UniqueFd fd = memory_file(file);
    const PagesReader damaged(fd.get());
    Bytes out(frame.raw);
    CHECK(code_of([&] { damaged.read_frame(n, out); }) == ErrorCode::corrupt);
    CHECK(stream_code(file) == ErrorCode::corrupt);
  }
}

}  // namespace
}  // namespace kfdcp::test
