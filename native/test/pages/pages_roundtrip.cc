// A pages file gives back the written contents.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <thread>

#include "core/pages/frame_codec.h"
#include "core/pages/hash.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {
namespace {

constexpr std::uint32_t kFrame = 1u << 20;

std::vector<Content> mixed_buffers() {
  Bytes sparse(3 * kFrame + 4096);
  sparse[kFrame + 5] = std::byte{1};
  return {{7, noise(2 * kFrame, 1)}, {3, text(kFrame + 123, 2)},
          {0xffffffff, sparse},      {1, Bytes(1)},
          {2, noise(4097, 3)},       {9, text(1, 4)}};
}

PagesOptions options(Compress compress) {
  PagesOptions out;
  out.compress = compress;
  out.frame_bytes = kFrame;
  out.process = 4;
  out.gpu = 2;
  return out;
}

TEST_CASE("pages: round trip, compressed and not") {
  for (const Compress compress :
       {Compress::none, Compress::automatic, Compress::lz4, Compress::zstd}) {
    CAPTURE(static_cast<int>(compress));
    const auto buffers = mixed_buffers();
    const UniqueFd fd = memory_file();
    const PagesSummary written = write_pages(fd.get(), options(compress), buffers);

    const PagesReader reader(fd.get());
    CHECK(read_pages(reader) == buffers);
    CHECK(reader.options().frame_bytes == kFrame);
    CHECK(reader.options().process == 4);
    CHECK(reader.options().gpu == 2);
    CHECK(reader.summary().root == written.root);
    CHECK(reader.summary().file_bytes == content_of(fd.get()).size());
    CHECK(reader.summary().file_bytes == written.file_bytes);
    CHECK(reader.summary().frames == 11);
    CHECK(written.frames == 11);
    CHECK(reader.summary().zero_frames == 4);
    CHECK(written.zero_frames == 4);
    CHECK(written.content_bytes == 6 * kFrame + 123 + 4096 + 1 + 4097 + 1);
  }
}

TEST_CASE("pages: codec of each frame") {
  const UniqueFd fd = memory_file();
  write_pages(fd.get(), options(Compress::zstd), mixed_buffers());
  const PagesReader reader(fd.get());
  CHECK(reader.frame(0).codec == Codec::raw);
  CHECK(reader.frame(2).codec == Codec::zstd);
  CHECK(reader.frame(2).stored < kFrame / 50);
  CHECK(reader.frame(4).codec == Codec::zero);
  CHECK(reader.frame(4).offset == 0);
  CHECK(reader.frame(5).codec == Codec::zstd);
  CHECK(code_of([&] { reader.frame(11); }) == ErrorCode::protocol);

  const UniqueFd plain = memory_file();
  write_pages(plain.get(), options(Compress::none), mixed_buffers());
  const PagesReader plain_reader(plain.get());
  for (std::uint64_t i = 0; i < plain_reader.summary().frames; ++i) {
    CHECK(plain_reader.frame(i).codec != Codec::zstd);
  }
}

TEST_CASE("pages: raw frames are aligned for O_DIRECT and checksummed") {
  const UniqueFd fd = memory_file();
  const auto buffers = mixed_buffers();
  write_pages(fd.get(), options(Compress::zstd), buffers);
  const PagesReader reader(fd.get());
  const Bytes file = content_of(fd.get());
  int raw = 0;
  for (std::uint64_t i = 0; i < reader.summary().frames; ++i) {
    const FrameEntry frame = reader.frame(i);
    if (frame.codec != Codec::raw) continue;
    ++raw;
    CHECK(frame.offset % 4096 == 0);
    CHECK(xxh3_64(std::span(file).subspan(frame.offset, frame.stored)) == frame.checksum);
  }
  CHECK(raw == 4);
}

TEST_CASE("pages: no buffers") {
  const UniqueFd fd = memory_file();
  PagesWriter writer(fd.get(), options(Compress::none));
  const PagesSummary written = writer.finish();
  CHECK(written.content_bytes == 0);
  const PagesReader reader(fd.get());
  CHECK(reader.buffers().empty());
  CHECK(reader.summary().root == written.root);
}

TEST_CASE("pages: inside an archive") {
  const UniqueFd fd = memory_file();
  const auto buffers = mixed_buffers();
  write_pages(fd.get(), options(Compress::zstd), buffers);
  const Bytes file = content_of(fd.get());
  Bytes archive = noise(1536, 9);
  archive.insert(archive.end(), file.begin(), file.end());
  const Bytes tail = noise(777, 10);
  archive.insert(archive.end(), tail.begin(), tail.end());
  const UniqueFd outer = memory_file(archive);

  const PagesReader reader(outer.get(), {1536, file.size()});
  CHECK(read_pages(reader) == buffers);
  CHECK(list_pages(outer.get(), {1536, file.size()}).buffers.size() == buffers.size());
  const auto open = [&](std::uint64_t offset, std::uint64_t length) {
    return code_of([&] { PagesReader(outer.get(), {offset, length}); });
  };
  CHECK(open(1536, file.size() - 1) == ErrorCode::corrupt);
  CHECK(open(1536, file.size() + 1) == ErrorCode::corrupt);
  CHECK(open(1535, file.size()) == ErrorCode::corrupt);
  CHECK(open(archive.size() + 1, 0) == ErrorCode::corrupt);
  CHECK(open(1536, ~std::uint64_t{0}) == ErrorCode::corrupt);
  CHECK(open(~std::uint64_t{0}, file.size()) == ErrorCode::corrupt);
}

/// Bytes this process has read through system calls.
std::uint64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  io >> name >> value;
  REQUIRE(name == "rchar:");
  return value;
}

TEST_CASE("pages: a buffer of more than 5 GiB, and what listing it reads") {
  constexpr std::uint64_t kSize = (std::uint64_t{5} << 30) + 4096;
  PagesOptions big = options(Compress::none);
  big.frame_bytes = 4u << 20;
  const UniqueFd fd = memory_file();
  const Bytes zeros(big.frame_bytes);
  const Bytes last = noise(4096, 5);
  {
    PagesWriter writer(fd.get(), big);
    writer.begin_buffer(1, kSize);
    for (std::uint64_t at = 0; at < kSize - 4096; at += zeros.size()) writer.append(zeros);
    writer.append(last);
    CHECK(writer.finish().content_bytes == kSize);
  }
  const PagesReader reader(fd.get());
  CHECK(reader.buffers().at(0).size == kSize);
  CHECK(reader.summary().zero_frames == 1280);
  Bytes out(4096);
  reader.read_frame(1280, out);
  CHECK(out == last);

  bytes_read();  // so that the size of /proc/self/io itself cancels out
  const std::uint64_t before = bytes_read();
  const std::uint64_t idle = bytes_read() - before;
  const std::uint64_t start = bytes_read();
  const PagesListing listing = list_pages(fd.get());
  const std::uint64_t cost = bytes_read() - start - idle;
  CHECK(cost < 4400);
  CHECK(listing.buffers.at(0).size == kSize);
  CHECK(listing.summary.root == reader.summary().root);
}

TEST_CASE("pages: several threads read at once") {
  const UniqueFd fd = memory_file();
  std::vector<Content> buffers;
  for (std::uint32_t i = 0; i < 8; ++i) buffers.push_back({i, text(kFrame, i)});
  write_pages(fd.get(), options(Compress::zstd), buffers);
  const PagesReader reader(fd.get());
  std::array<bool, 4> good{};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < good.size(); ++t) {
      threads.emplace_back([&, t] { good[t] = read_pages(reader) == buffers; });
    }
  }
  for (const bool g : good) CHECK(g);
}

TEST_CASE("pages: frames written by several threads make the file that one makes") {
  constexpr std::size_t kThreads = 4;
  std::vector<Content> buffers;
  for (std::uint32_t i = 0; i < 3 * kThreads; ++i) {
    buffers.push_back({i, i % 3 == 0   ? Bytes(kFrame)
                          : i % 3 == 1 ? text(kFrame, i)
                                       : noise(99, i)});
  }
  const UniqueFd one = memory_file();
  const PagesSummary summary = write_pages(one.get(), options(Compress::zstd), buffers);

  const UniqueFd fd = memory_file();
  PagesWriter writer(fd.get(), options(Compress::zstd));
  std::mutex mutex;
  std::condition_variable turn;
  std::size_t next = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const std::unique_ptr<FrameEncoder> encoder = writer.make_encoder();
        for (std::size_t i = t; i < buffers.size(); i += kThreads) {
          const EncodedFrame frame = encoder->encode(buffers[i].bytes);
          std::unique_lock lock(mutex);
          turn.wait(lock, [&] { return next == i; });
          writer.begin_buffer(buffers[i].id, buffers[i].bytes.size());
          const PlacedFrame placed = writer.place(buffers[i].bytes.size(), frame);
          ++next;
          lock.unlock();
          turn.notify_all();
          writer.write({&placed, 1}, {&frame, 1});
        }
      });
    }
  }
  CHECK(writer.finish().root == summary.root);
  CHECK(content_of(fd.get()) == content_of(one.get()));
}

TEST_CASE("pages: misuse of the writer is refused") {
  const auto misuse = [](auto&& action) {
    const UniqueFd fd = memory_file();
    PagesWriter writer(fd.get(), options(Compress::none));
    return code_of([&] { action(writer); }) == ErrorCode::protocol;
  };
  const Bytes frame = noise(kFrame, 1);
  CHECK(misuse([&](PagesWriter& w) { w.append(frame); }));
  CHECK(misuse([&](PagesWriter& w) { w.begin_buffer(1, 0); }));
  CHECK(misuse([&](PagesWriter& w) { w.begin_buffer(1, kFrame), w.begin_buffer(2, kFrame); }));
  CHECK(misuse([&](PagesWriter& w) { w.begin_buffer(1, kFrame), w.finish(); }));
  CHECK(misuse([&](PagesWriter& w) {
    w.begin_buffer(1, kFrame + 1), w.append({frame.data(), 1});
  }));
  CHECK(misuse([&](PagesWriter& w) { w.begin_buffer(1, 4096), w.append(frame); }));
  CHECK(misuse([&](PagesWriter& w) { w.finish(), w.finish(); }));
  CHECK(misuse([&](PagesWriter& w) {
    w.begin_buffer(1, kFrame), w.append(frame), w.begin_buffer(1, kFrame);
  }));
  CHECK(misuse([&](PagesWriter& w) {
    w.begin_buffer(1, kFrame), w.place(kFrame, w.make_encoder()->encode(frame)), w.finish();
  }));
  const EncodedFrame raw{Codec::raw, 0, frame};
  CHECK(misuse([&](PagesWriter& w) { w.write({}, {&raw, 1}); }));

  const UniqueFd used = memory_file(frame);
  CHECK(code_of([&] { PagesWriter(used.get(), options(Compress::none)); }) == ErrorCode::protocol);
  PagesOptions bad = options(Compress::none);
  bad.frame_bytes = 4096;
  const UniqueFd fd = memory_file();
  CHECK(code_of([&] { PagesWriter(fd.get(), bad); }) == ErrorCode::protocol);
  const UniqueFd huge = memory_file();
  PagesWriter writer(huge.get(), options(Compress::none));
  CHECK(code_of([&] { writer.begin_buffer(1, ~std::uint64_t{0}); }) == ErrorCode::unsupported);
}

TEST_CASE("pages: a full disk is an error with its errno, and stays the writer's reason") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const UniqueFd fd = memory_file();
  PagesWriter writer(fd.get(), options(Compress::none));
  writer.begin_buffer(1, 2 * kFrame);
  const Bytes frame = noise(kFrame, 1);
  writer.append(frame);
  rlimit small = before;
  small.rlim_cur = kFrame + kFrame / 2;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  int err = 0;
  ErrorCode code = ErrorCode::cancelled;
  try {
    writer.append(frame);
  } catch (const Error& error) {
    code = error.code;
    err = error.err;
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(code == ErrorCode::io);
  CHECK(err == EFBIG);
  // With several workers, any of them may report first.
  CHECK(code_of([&] { writer.append(frame); }) == ErrorCode::io);
  CHECK(code_of([&] { writer.finish(); }) == ErrorCode::io);
}

}  // namespace
}  // namespace kfdcp::test
