// What a reader of a pages file refuses to be asked for.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/pages/pages.h"
#include "core/pages/pages_layout.h"
#include "test/os/error_code.h"
#include "test/os/folder.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_sample.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {
namespace {

TEST_CASE("pages: a folder is no pages file, however large") {
  const Folder folder;
  for (int i = 0; i < 300; ++i) folder.write(std::string(100, 'n') + std::to_string(i), "");
  const UniqueFd fd(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  REQUIRE(::fstat(fd.get(), &info) == 0);
  REQUIRE(static_cast<std::uint64_t>(info.st_size) > sizeof(layout::Header) + 128);
  CHECK(code_of([&] { PagesReader reader(fd.get()); }) == ErrorCode::corrupt);
}

TEST_CASE("pages: a range that ends behind its file is refused, whatever it says") {
  const Bytes file = PagesSample().file;
  const UniqueFd fd = memory_file(file);
  for (const std::uint64_t length : {file.size() + 1, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    CHECK(code_of([&] { PagesReader(fd.get(), {0, length}); }) == ErrorCode::corrupt);
    CHECK(code_of([&] { list_pages(fd.get(), {0, length}); }) == ErrorCode::corrupt);
  }
}

TEST_CASE("pages: what lies behind a pages file in an archive is not read through it") {
  const PagesSample sample;
  Bytes archive = sample.file;
  archive.insert(archive.end(), sample.file_of_two.begin(), sample.file_of_two.end());
  const UniqueFd fd = memory_file(archive);
  const PagesReader reader(fd.get(), {0, sample.file.size()});
  const auto read = [&](std::uint64_t offset, std::size_t bytes) {
    Bytes out(bytes);
    return code_of([&] { reader.read_range(offset, out); });
  };
  const std::uint64_t end = sample.file.size();
  CHECK(read(end - 64, 64) == std::nullopt);
  CHECK(read(end, 0) == std::nullopt);
  CHECK(read(end - 64, 65) == ErrorCode::corrupt);
  CHECK(read(end, 1) == ErrorCode::corrupt);
  CHECK(read(end + 64, 64) == ErrorCode::corrupt);
  CHECK(read(~std::uint64_t{0}, 64) == ErrorCode::corrupt);
}

TEST_CASE("pages: stored bytes are read into room of their length, and of no other") {
  const UniqueFd fd = memory_file(PagesSample().file);
  const PagesReader reader(fd.get());
  const std::uint32_t stored = reader.frame(1).stored;
  const auto read = [&](std::size_t bytes) {
    Bytes out(bytes);
    return code_of([&] { reader.read_stored(1, out); });
  };
  CHECK(read(stored) == std::nullopt);
  CHECK(read(stored - 1) == ErrorCode::protocol);
  CHECK(read(stored + 1) == ErrorCode::protocol);
}

TEST_CASE("pages: a file is only the one that the manifest means") {
  PagesOptions options;
  options.process = 4;
  options.gpu = 2;
  const UniqueFd fd = memory_file();
  const auto root = write_pages(fd.get(), options, {{1, noise(64, 1)}}).root;
  const PagesReader reader(fd.get());
  const auto is = [&](std::uint32_t process, std::uint32_t gpu, const auto& wanted) {
    const auto code = code_of([&] { reader.expect(process, gpu, wanted); });
    CHECK((!code || code == ErrorCode::corrupt));
    return !code;
  };
  auto other = root;
  other.back() ^= 1;
  CHECK(is(4, 2, std::optional(root)));
  CHECK(is(4, 2, std::optional<decltype(other)>()));
  CHECK_FALSE(is(4, 2, std::optional(other)));
  CHECK_FALSE(is(4, 1, std::optional(root)));
  CHECK_FALSE(is(3, 2, std::optional(root)));
}

}  // namespace
}  // namespace kfdcp::test
