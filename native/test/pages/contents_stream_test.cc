// Pages files that are sent while they are made.
#include "core/pages/contents_stream.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/pages/contents_record.h"
#include "core/pages/pages_sink.h"
#include "core/wire/image_files.h"
#include "test/os/error_code.h"
#include "test/os/folder.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {
namespace {

constexpr PagesOptions kOptions{.compress = Compress::lz4, .frame_bytes = 1u << 20};
constexpr ReceiveLimits kAmple{.files = 16, .bytes = 1u << 30};

std::pair<UniqueFd, UniqueFd> pipe_of_two() {
  // A writer without a reader gets EPIPE, as under Node.js.
  std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

class Store {
 public:
  int fd() const { return fd_.get(); }
  Bytes file(const std::string& name) const {
    const UniqueFd one(::openat(fd_.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(one);
    return content_of(one.get());
  }
  std::size_t files() const {
    const auto all = std::filesystem::directory_iterator(folder_.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  Folder folder_;
  const UniqueFd fd_{::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

ReceivedContents received(int fd, const Store& store, const ReceiveLimits& limits = kAmple,
                          std::stop_token stop = {}) {
  std::atomic<std::uint64_t> progress = 0;
  return receive_contents(fd, store.fd(), limits, std::move(stop), progress);
}

Bytes piece(std::uint16_t gpu, std::uint64_t offset, std::span<const std::byte> bytes) {
  const ContentsRecord record =
      contents_record(kContentsPiece, 0, gpu, static_cast<std::uint32_t>(bytes.size()), offset);
  Bytes all(sizeof(record) + bytes.size());
  std::memcpy(all.data(), &record, sizeof(record));
  std::ranges::copy(bytes, all.begin() + sizeof(record));
  return all;
}

Bytes last(std::uint32_t files, std::uint64_t bytes) {
  const ContentsRecord record = contents_record(kContentsEnd, 0, 0, files, bytes);
  Bytes all(sizeof(record));
  std::memcpy(all.data(), &record, sizeof(record));
  return all;
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// The refusal of a stream.
std::optional<ErrorCode> refusal(const Bytes& stream, const ReceiveLimits& limits = kAmple) {
  const Store store;
  const UniqueFd fd = memory_file(stream);
  REQUIRE(::lseek(fd.get(), 0, SEEK_SET) == 0);
  return code_of([&] { received(fd.get(), store, limits); });
}

const Bytes kSome = noise(100, 1);

}  // namespace

TEST_CASE("contents stream: what two writers send at once are the files that they write") {
  const std::vector<std::vector<Content>> contents{
      {{1, noise((3u << 20) + 7, 1)}, {2, Bytes(2u << 20)}}, {{3, text(5u << 20, 2)}}};
  const auto options_of = [](std::uint32_t gpu) {
    PagesOptions options = kOptions;
    options.gpu = gpu;
    return options;
  };
  auto [reader, writer] = pipe_of_two();
  ContentsSender sender(std::move(writer));
  const Store store;
  ReceivedContents result;
  std::thread receiving([&, &fd = reader] { result = received(fd.get(), store); });
  const std::array kept{memory_file(), memory_file()};
  std::vector<std::thread> writing;
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) {
    writing.emplace_back([&, gpu] {
      PagesWriter out(both_sinks(file_sink(kept[gpu].get()), sender.file(0, gpu)), options_of(gpu));
      write_buffers(out, options_of(gpu), contents[gpu]);
    });
  }
  for (std::thread& one : writing) one.join();
  sender.finish();
  // The writer's end is still open.
  receiving.join();

  CHECK(result.files == 2);
  CHECK(result.bytes == sender.bytes());
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) {
    const UniqueFd expected = memory_file();
    write_pages(expected.get(), options_of(gpu), contents[gpu]);
    CHECK(store.file(pages_file_name(0, gpu)) == content_of(expected.get()));
    CHECK(content_of(kept[gpu].get()) == content_of(expected.get()));
  }
}

TEST_CASE("contents stream: pieces come in any order") {
  const Bytes whole = noise(300, 2);
  const std::span<const std::byte> bytes(whole);
  const Store store;
  const UniqueFd fd = memory_file(
      joined({piece(7, 200, bytes.subspan(200)), piece(7, 0, bytes.first(200)), last(1, 300)}));
  REQUIRE(::lseek(fd.get(), 0, SEEK_SET) == 0);
  CHECK(received(fd.get(), store).bytes == 300);
  CHECK(store.file(pages_file_name(0, 7)) == whole);
}

TEST_CASE("contents stream: cut off anywhere it is refused") {
  const Bytes stream = joined({piece(0, 0, kSome), piece(1, 5, kSome), last(2, 200)});
  CHECK(refusal(stream) == std::nullopt);
  for (std::size_t size = 0; size < stream.size(); ++size) {
    CAPTURE(size);
    CHECK(refusal(Bytes(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(size))) ==
          ErrorCode::corrupt);
  }
}

TEST_CASE("contents stream: what is no stream is refused") {
  const Bytes sound = piece(0, 0, kSome);
  for (std::size_t at = 0; at < sizeof(ContentsRecord); ++at) {
    CAPTURE(at);
    Bytes bent = joined({sound, last(1, 100)});
    bent[at] ^= std::byte{0x10};
    CHECK(refusal(bent) == ErrorCode::corrupt);
  }
  CHECK(refusal(joined({sound, last(2, 100)})) == ErrorCode::corrupt);
  CHECK(refusal(joined({sound, last(1, 101)})) == ErrorCode::corrupt);
  CHECK(refusal(joined({sound, last(1, 100), {std::byte{0}}})) == ErrorCode::corrupt);
  CHECK(refusal(joined({piece(0, 0, {}), last(1, 0)})) == ErrorCode::corrupt);
}

TEST_CASE(
    "contents stream: a record that no sender makes is refused, though its checksum is right") {
  const auto with = [](auto&& change) {
    Bytes stream = joined({piece(0, 0, kSome), last(1, 100)});
    const auto alter = [&](std::size_t at, bool is_last) {
      ContentsRecord record;
      std::memcpy(&record, stream.data() + at, sizeof(record));
      change(record, is_last);
      record.checksum = record_checksum(record);
      std::memcpy(stream.data() + at, &record, sizeof(record));
    };
    alter(0, false);
    alter(stream.size() - sizeof(ContentsRecord), true);
    return refusal(stream);
  };
  CHECK(with([](ContentsRecord&, bool) {}) == std::nullopt);
  CHECK(with([](auto& record, bool last) { record.magic[3] = last ? 'E' : 'X'; }) ==
        ErrorCode::corrupt);
  CHECK(with([](auto& record, bool last) { record.reserved = last ? 0 : 1; }) ==
        ErrorCode::corrupt);
  CHECK(with([](auto& record, bool last) { record.reserved = last ? 1 : 0; }) ==
        ErrorCode::corrupt);
  CHECK(with([](auto& record, bool last) { record.process = last ? 1 : 0; }) == ErrorCode::corrupt);
  CHECK(with([](auto& record, bool last) { record.gpu = last ? 1 : 0; }) == ErrorCode::corrupt);
}

TEST_CASE("contents stream: what its records have no room for is not sent") {
  auto [reader, writer] = pipe_of_two();
  ContentsSender sender(std::move(writer));
  CHECK(code_of([&] { sender.file(1u << 16, 0); }) == ErrorCode::protocol);
  CHECK(code_of([&] { sender.file(0, 1u << 16); }) == ErrorCode::protocol);
  const auto sink = sender.file(0xffff, 0xffff);
  // The same bytes again and again: 4 GiB of them.
  Bytes some(1u << 20);
  std::vector<iovec> parts(4096, write_part(some));
  reader = UniqueFd();
  CHECK(code_of([&] { sink->write(parts, 0); }) == ErrorCode::unsupported);
  parts.back().iov_len -= 1;
  CHECK(code_of([&] { sink->write(parts, 0); }) == ErrorCode::io);  // nobody reads
}

TEST_CASE("contents stream: never more than was announced, wherever it should go") {
  const ReceiveLimits limits{.files = 1, .bytes = 150};
  CHECK(refusal(joined({piece(0, 50, kSome), last(1, 100)}), limits) == std::nullopt);
  for (const Bytes& stream :
       {piece(0, 51, kSome), piece(0, ~std::uint64_t{0}, kSome), piece(0, 0, Bytes(151)),
        joined({piece(0, 0, kSome), piece(0, 0, Bytes(51))}),
        joined({piece(0, 0, Bytes(1)), piece(1, 0, Bytes(1))})}) {
    CHECK(refusal(stream, limits) == ErrorCode::unsupported);
  }
}

TEST_CASE("contents stream: a file that is there already is not touched") {
  const Store store;
  const UniqueFd fd = memory_file(joined({piece(0, 0, kSome), last(1, 100)}));
  REQUIRE(::lseek(fd.get(), 0, SEEK_SET) == 0);
  const std::string name = pages_file_name(0, 0);
  REQUIRE(::symlinkat("/dev/null", store.fd(), name.c_str()) == 0);
  CHECK(code_of([&] { received(fd.get(), store); }) == ErrorCode::io);
  CHECK(store.files() == 1);
}

TEST_CASE("contents stream: a reader that goes ends the writer, and so does a stop") {
  auto [reader, writer] = pipe_of_two();
  ContentsSender sender(std::move(writer));
  const auto sink = sender.file(0, 0);
  Bytes much(8u << 20);
  const auto write = [&] {
    iovec part = write_part(much);
    sink->write({&part, 1}, 0);
  };
  SUBCASE("gone") {
    std::thread going([fd = std::move(reader)]() mutable {
      Bytes some(2u << 20);
      REQUIRE(::read(fd.get(), some.data(), some.size()) > 0);
    });
    CHECK(code_of(write) == ErrorCode::io);
    going.join();
  }
  SUBCASE("stopped") {
    std::jthread stopping([&] { sender.stop(); });
    CHECK(code_of(write) == ErrorCode::cancelled);
  }
  // A record was cut: a reader would take what follows for its rest.
  CHECK(code_of([&] { sender.finish(); }) == ErrorCode::io);
}

TEST_CASE("contents stream: a receiver that is stopped ends") {
  const auto [reader, writer] = pipe_of_two();
  const Store store;
  std::stop_source stop;
  std::jthread stopping([&] { stop.request_stop(); });
  CHECK(code_of([&, &fd = reader] { received(fd.get(), store, kAmple, stop.get_token()); }) ==
        ErrorCode::cancelled);
}

}  // namespace kfdcp::test
