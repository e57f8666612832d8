// Whole reads and writes at an offset.
#include "core/os/file_io.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"

namespace kfdcp::test {

TEST_CASE("file: all that was asked for is read, or the file is too short") {
  const Bytes content = noise(5000, 1);
  const UniqueFd fd = memory_file(content);
  const auto read = [&](std::uint64_t offset, std::size_t bytes) {
    Bytes out(bytes);
    const auto code = code_of([&] { read_exactly(fd.get(), out, offset, "file"); });
    if (!code) {
      CHECK(std::equal(out.begin(), out.end(),
                       content.begin() + static_cast<std::ptrdiff_t>(offset)));
    }
    return code;
  };
  CHECK(read(0, 5000) == std::nullopt);
  CHECK(read(4000, 1000) == std::nullopt);
  CHECK(read(5000, 0) == std::nullopt);
  CHECK(read(4000, 1001) == ErrorCode::corrupt);
  CHECK(read(5000, 1) == ErrorCode::corrupt);
  CHECK(read(~std::uint64_t{0}, 1) == ErrorCode::io);
}

}  // namespace kfdcp::test
