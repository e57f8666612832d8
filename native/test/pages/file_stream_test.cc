// A file that is sent while it is written.
#include "core/pages/file_stream.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <future>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "core/os/error.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {
namespace {

constexpr std::uint64_t kAmple = 1u << 30;

std::pair<UniqueFd, UniqueFd> pipe_of_two() {
  // A writer without a reader gets EPIPE, as under Node.js.
  std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

UniqueFd again(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

void add(int fd, const Bytes& bytes) {
  REQUIRE(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

/// The stream of a file that is whole.
Bytes stream_of(const Bytes& bytes) {
  const UniqueFd file = memory_file();
  add(file.get(), bytes);
  auto [reader, writer] = pipe_of_two();
  FileSender sender(again(file.get()), std::move(writer));
  sender.end();
  auto sent = std::async(std::launch::async, [&] { return sender.run({}); });
  Bytes stream;
  std::array<std::byte, 65536> room{};
  for (ssize_t got = 0; (got = ::read(reader.get(), room.data(), room.size())) > 0;) {
    stream.insert(stream.end(), room.begin(), room.begin() + got);
  }
  CHECK(sent.get() == bytes.size());
  return stream;
}

/// What a target makes of it.
std::uint64_t taken(const Bytes& stream, int file, std::uint64_t limit = kAmple) {
  auto ends = pipe_of_two();
  UniqueFd& reader = ends.first;
  UniqueFd& writer = ends.second;
  auto put = std::async(std::launch::async, [&stream, &writer] {
    const UniqueFd end = std::move(writer);
    std::size_t at = 0;
    while (at < stream.size()) {
      const ssize_t some = ::write(end.get(), stream.data() + at, stream.size() - at);
      if (some <= 0) return;
      at += static_cast<std::size_t>(some);
    }
  });
  const UniqueFd own = std::move(reader);
  return receive_file(own.get(), file, limit, {});
}

TEST_CASE("file stream: what is written while it is sent arrives whole") {
  const UniqueFd file = memory_file();
  const UniqueFd there = memory_file();
  const Bytes first = noise(3'000'001, 1);
  const Bytes second(5'000'000, std::byte{7});
  auto [reader, writer] = pipe_of_two();
  FileSender sender(again(file.get()), std::move(writer));
  auto sent = std::async(std::launch::async, [&] { return sender.run({}); });
  auto arrived = std::async(std::launch::async, [&, fd = reader.get()] {
    return receive_file(fd, there.get(), kAmple, {});
  });
  add(file.get(), first);
  // The reader has what there is, before the end is known.
  while (content_of(there.get()).size() < first.size()) std::this_thread::yield();
  CHECK(sender.bytes() == first.size());
  add(file.get(), second);
  sender.end();
  CHECK(sent.get() == first.size() + second.size());
  CHECK(arrived.get() == first.size() + second.size());
  Bytes all = first;
  all.insert(all.end(), second.begin(), second.end());
  CHECK(content_of(there.get()) == all);
}

TEST_CASE("file stream: host memory is sent compressed, and an empty file is one") {
  CHECK(stream_of(Bytes(1u << 24, std::byte{0})).size() < 1u << 14);
  const UniqueFd there = memory_file();
  CHECK(taken(stream_of({}), there.get()) == 0);
  // What is decoded at once ends with the file.
  for (const std::size_t size : {1u << 20, 2u << 20, 7u << 20}) {
    CHECK(taken(stream_of(Bytes(size, std::byte{0})), there.get()) == size);
  }
}

TEST_CASE("file stream: a reader that goes, and a stop, end the sender") {
  const UniqueFd file = memory_file();
  add(file.get(), noise(1u << 22, 2));
  auto [reader, writer] = pipe_of_two();
  FileSender lonely(again(file.get()), std::move(writer));
  reader = UniqueFd();
  CHECK(code_of([&] { lonely.run({}); }) == ErrorCode::io);

  // The pipe is full, and nobody reads it.
  auto [other, end] = pipe_of_two();
  FileSender stuck(again(file.get()), std::move(end));
  std::stop_source stop;
  auto ended =
      std::async(std::launch::async, [&] { return code_of([&] { stuck.run(stop.get_token()); }); });
  stop.request_stop();
  CHECK(ended.get() == ErrorCode::cancelled);

  // There is nothing to send yet.
  const UniqueFd empty = memory_file();
  auto [third, last] = pipe_of_two();
  FileSender idle(again(empty.get()), std::move(last));
  CHECK(code_of([&] { idle.run(stop.get_token()); }) == ErrorCode::cancelled);
  CHECK(code_of([&] { receive_file(third.get(), empty.get(), kAmple, stop.get_token()); }) ==
        ErrorCode::cancelled);
}

TEST_CASE(
    "file stream: what is no whole stream is refused, and so is more than there is room for") {
  const Bytes bytes = noise(300'000, 3);
  const Bytes stream = stream_of(bytes);
  const UniqueFd there = memory_file();
  CHECK(taken(stream, there.get(), bytes.size()) == bytes.size());
  CHECK(code_of([&] { taken(stream, there.get(), bytes.size() - 1); }) == ErrorCode::unsupported);
  CHECK(code_of([&] { taken({}, there.get()); }) == ErrorCode::corrupt);
  CHECK(code_of([&] { taken(Bytes(64, std::byte{'{'}), there.get()); }) == ErrorCode::corrupt);
  for (const std::size_t at : {std::size_t{1}, stream.size() / 2, stream.size() - 1}) {
    const Bytes cut(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(at));
    CHECK(code_of([&] { taken(cut, there.get()); }) == ErrorCode::corrupt);
    Bytes changed = stream;
    changed[at] ^= std::byte{1};
    CHECK(code_of([&] { taken(changed, there.get()); }) == ErrorCode::corrupt);
  }
}

TEST_CASE("file stream: a reader takes it while it arrives, and sees its end or that it is cut") {
  const Bytes bytes = noise(3'000'000, 4);
  const Bytes stream = stream_of(bytes);
  for (const std::size_t size : {stream.size(), stream.size() / 2}) {
    auto [reader, writer] = pipe_of_two();
    auto [out, in] = pipe_of_two();
    auto put = std::async(std::launch::async, [&stream, size, &whole = writer] {
      const UniqueFd end = std::move(whole);
      return ::write(end.get(), stream.data(), size) == static_cast<ssize_t>(size);
    });
    auto forwarded = std::async(std::launch::async, [fd = reader.get(), &end = in] {
      return forward_file(fd, std::move(end), kAmple, {});
    });
    Bytes got;
    std::array<std::byte, 65536> room{};
    for (ssize_t some = 0; (some = ::read(out.get(), room.data(), room.size())) > 0;) {
      got.insert(got.end(), room.begin(), room.begin() + some);
    }
    CHECK(put.get());
    if (size == stream.size()) {
      CHECK(forwarded.get() == bytes.size());
      CHECK(got == bytes);
    } else {
      CHECK(code_of([&] { forwarded.get(); }) == ErrorCode::corrupt);
      CHECK(got.size() < bytes.size());
    }
  }
}

TEST_CASE("file stream: a reader that goes or takes nothing does not hold the target") {
  const Bytes stream = stream_of(noise(3'000'000, 5));
  const UniqueFd file = memory_file();
  add(file.get(), stream);
  {
    auto [out, in] = pipe_of_two();
    out = UniqueFd();
    REQUIRE(::lseek(file.get(), 0, SEEK_SET) == 0);
    CHECK(code_of([&, &end = in] { forward_file(file.get(), std::move(end), kAmple, {}); }) ==
          ErrorCode::io);
  }
  auto [out, in] = pipe_of_two();
  REQUIRE(::lseek(file.get(), 0, SEEK_SET) == 0);
  std::stop_source stop;
  auto ended = std::async(std::launch::async, [&, &end = in] {
    return code_of([&] { forward_file(file.get(), std::move(end), kAmple, stop.get_token()); });
  });
  stop.request_stop();
  CHECK(ended.get() == ErrorCode::cancelled);
}

}  // namespace
}  // namespace kfdcp::test
