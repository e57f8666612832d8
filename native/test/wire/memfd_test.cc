// Sealed memfds, in which states travel.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/os/error.h"
#include "core/wire/wire.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/wire/wire_raw.h"

namespace kfdcp::test {

TEST_CASE("wire: a memfd comes back as it was made and cannot be changed") {
  for (const std::size_t size : {0u, 1u, 100'000u}) {
    const std::vector<std::byte> bytes = noise(size, 5);
    const UniqueFd fd = make_memfd("t", bytes.data(), size);
    CHECK(read_memfd(fd.get(), size) == bytes);
    CHECK(::pwrite(fd.get(), "x", 1, 0) == -1);
    CHECK(::ftruncate(fd.get(), static_cast<off_t>(size + 1)) == -1);
    if (size > 0) CHECK(code_of([&] { read_memfd(fd.get(), size - 1); }) == ErrorCode::protocol);
  }
}

TEST_CASE("wire: read_memfd refuses what is no file and survives one that changes") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  CHECK(code_of([&] { read_memfd(reader.get(), 100); }) == ErrorCode::protocol);
  const Pair pair = packet_pair();
  CHECK(code_of([&] { read_memfd(pair.a.get(), 100); }) == ErrorCode::protocol);
  const UniqueFd directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(code_of([&] { read_memfd(directory.get(), 1 << 20); }) == ErrorCode::protocol);
  CHECK(code_of([&] { read_memfd(-1, 100); }) == ErrorCode::io);

  // sysfs says 4096 bytes and holds fewer: the same as a file that shrank after it was looked at.
  const UniqueFd shorter(::open("/sys/kernel/uevent_seqnum", O_RDONLY | O_CLOEXEC));
  REQUIRE(shorter);
  CHECK(code_of([&] { read_memfd(shorter.get(), 4096); }) == ErrorCode::protocol);

  const UniqueFd file = memory_file(noise(1000, 1));
  constexpr std::size_t limit = 4'000'000;
  std::jthread resizer([&](const std::stop_token& stop) {
    for (off_t size = 0; !stop.stop_requested(); size = (size + 777'777) % limit) {
      if (::ftruncate(file.get(), size) == -1) return;
    }
  });
  for (int i = 0; i < 50; ++i) {
    // A file that shrinks meanwhile is refused; the assertion must not stand where that throws.
    std::size_t size = 0;
    const auto code = code_of([&] { size = read_memfd(file.get(), limit).size(); });
    CHECK(size <= limit);
    CHECK((!code || code == ErrorCode::protocol));
  }
}

}  // namespace kfdcp::test
