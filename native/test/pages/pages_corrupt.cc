// No damage of a pages file gives other content without an error.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>

#include "core/pages/pages_check.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_sample.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {
namespace {

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

const PagesSample& sample_of(Codec codec) {
  static const PagesSample zstd, lz4(Compress::lz4), planes(Compress::zstd, halves(16500, 2));
  return codec == Codec::zstd ? zstd : codec == Codec::lz4 ? lz4 : planes;
}

constexpr Codec kPacked[] = {Codec::zstd, Codec::lz4, Codec::planes};

TEST_CASE("pages: every changed byte is an error or harmless") {
  for (const Codec packed : kPacked) {
    const PagesSample& sample = sample_of(packed);
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
    const PagesSample& sample = sample_of(packed);
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
  const PagesSample sample;
  const UniqueFd fd = memory_file(sample.file);
  for (std::size_t n = sample.file.size(); n-- > 0;) {
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(n)) == 0);
    CHECK(code_of([&] { PagesReader reader(fd.get()); }) == ErrorCode::corrupt);
  }
  Bytes longer = sample.file;
  longer.resize(longer.size() + 64);
  CHECK(refused(longer));
}

TEST_CASE("pages: what cannot be read at all") {
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(code_of([&] { PagesReader reader(null.get()); }) == ErrorCode::corrupt);
  CHECK(code_of([&] { PagesReader reader(-1); }) == ErrorCode::io);
  const UniqueFd file = memory_file(PagesSample().file);
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  const UniqueFd write_only(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(code_of([&] { PagesReader reader(write_only.get()); }) == ErrorCode::io);
  const PagesReader reader(file.get());
  Bytes out(reader.frame(0).raw + 1);
  CHECK(code_of([&] { reader.read_frame(0, out); }) == ErrorCode::protocol);
}

TEST_CASE("pages: content that does not match its checksum is refused when it is read") {
  const PagesSample sample;
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
