#include "core/transfer.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "transfer_fakes.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

constexpr std::size_t kFrame = 1u << 20;
constexpr EngineOptions kRing{.slots = 3, .slot_bytes = kFrame};
const PagesOptions kPages{.frame_bytes = kFrame};
constexpr TransferOptions kWork{.workers = 2};

/// Sizes below, at and above a frame, of odd page counts; sparse, empty and dense content.
std::vector<std::vector<std::byte>> sample() {
  std::vector<std::vector<std::byte>> contents;
  contents.push_back(noise(4096, 1));
  contents.push_back(noise(kFrame, 2));
  contents.push_back(noise(3 * kFrame + 3 * 4096, 3));
  contents.push_back(std::vector<std::byte>(4 * kFrame + 4096));
  contents.push_back(noise(5 * 4096, 4));
  auto sparse = noise(3 * kFrame, 5);
  std::fill(sparse.begin() + kFrame, sparse.begin() + 2 * kFrame, std::byte{0});
  contents.push_back(std::move(sparse));
  return contents;
}

std::uint64_t bytes_of(const std::vector<std::vector<std::byte>>& contents) {
  std::uint64_t sum = 0;
  for (const auto& content : contents) sum += content.size();
  return sum;
}

/// Buffers with ids 10, 11, ...
std::vector<ContentBuffer> buffers_of(const std::vector<std::vector<std::byte>>& contents) {
  std::vector<ContentBuffer> buffers;
  for (const auto& content : contents) {
    const auto id = static_cast<std::uint32_t>(10 + buffers.size());
    buffers.push_back({id, content.size(), memfd_of(content)});
  }
  return buffers;
}

/// Buffers of the same sizes, full of rubbish, as a restore finds them.
std::vector<ContentBuffer> dirty_buffers_of(const std::vector<std::vector<std::byte>>& contents) {
  auto rubbish = contents;
  for (auto& content : rubbish) std::fill(content.begin(), content.end(), std::byte{0xa5});
  return buffers_of(rubbish);
}

void check_contents(const std::vector<ContentBuffer>& buffers,
                    const std::vector<std::vector<std::byte>>& contents) {
  REQUIRE(buffers.size() == contents.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    CAPTURE(i);
    CHECK(content_of(buffers[i].dmabuf.get()) == contents[i]);
  }
}

/// A pages file of `contents`, drained with the CPU.
UniqueFd pages_of(const std::vector<std::vector<std::byte>>& contents) {
  UniqueFd file = memfd_of({});
  PagesWriter out(file.get(), kPages);
  TransferProgress progress;
  const auto engine = make_cpu_engine(kRing);
  drain(*engine, buffers_of(contents), out, kWork, {}, progress);
  out.finish();
  return file;
}

/// One job with a FakeEngine, and what became of it.
struct Job {
  explicit Job(const Faults& faults = {}) : engine(kRing, faults) {}
  explicit Job(const EngineOptions& ring) : engine(ring) {}

  std::optional<ErrorCode> drain_all(const std::vector<ContentBuffer>& buffers) {
    const UniqueFd file = memfd_of({});
    PagesWriter out(file.get(), kPages);
    return code_of([&] { drain(engine, buffers, out, kWork, stop.get_token(), progress); });
  }
  std::optional<ErrorCode> upload_all(const std::vector<ContentBuffer>& buffers, int file) {
    const PagesReader in(file);
    return code_of([&] { upload(engine, buffers, in, kWork, stop.get_token(), progress); });
  }
  /// Nothing is left behind and the engine was used as it has to be.
  void check_clean() const {
    CHECK(engine.in_flight() == 0);
    CHECK(engine.live == 0);
    CHECK(engine.breaches == std::vector<std::string>{});
  }
  void stop_at(std::size_t event) {
    engine.on_event = [this, event, n = std::size_t{0}]() mutable {
      if (n++ == event) stop.request_stop();
    };
  }

  FakeEngine engine;
  std::stop_source stop;
  TransferProgress progress;
};

/// Uploads `contents` over rubbish: they are all there then, and nothing else is left.
void check_upload(Job& job, const std::vector<std::vector<std::byte>>& contents) {
  const UniqueFd file = pages_of(contents);
  const auto targets = dirty_buffers_of(contents);
  CHECK_FALSE(job.upload_all(targets, file.get()));
  job.check_clean();
  check_contents(targets, contents);
}

}  // namespace

TEST_CASE("transfer: what the CPU engine drained it puts back, whatever was there") {
  const auto contents = sample();
  const UniqueFd file = memfd_of({});
  PagesWriter out(file.get(), kPages);
  const auto engine = make_cpu_engine(kRing);
  TransferProgress drained;
  const TransferStats stats = drain(*engine, buffers_of(contents), out, kWork, {}, drained);
  const PagesSummary summary = out.finish();
  CHECK(stats.bytes == bytes_of(contents));
  CHECK(drained.bytes_done == bytes_of(contents));
  CHECK(summary.content_bytes == bytes_of(contents));
  CHECK(summary.zero_frames == 6);
  // Zeros have no checksum.
  std::uint64_t zeros = 0;
  for (std::uint64_t i = 0; i < summary.frames; ++i) {
    const FrameEntry frame = PagesReader(file.get()).frame(i);
    if (frame.codec == Codec::zero) zeros += frame.raw;
  }
  CHECK(stats.hash.bytes == stats.bytes - zeros);
  CHECK(stats.hash.busy_us > 0);
  CHECK(stats.hash.busy_us <= stats.code.busy_us);

  const auto targets = dirty_buffers_of(contents);
  const PagesReader in(file.get());
  TransferProgress uploaded;
  const TransferStats filled = upload(*engine, targets, in, kWork, {}, uploaded);
  CHECK(filled.bytes == bytes_of(contents));
  CHECK(filled.hash.bytes == stats.hash.bytes);
  CHECK(filled.hash.busy_us <= filled.code.busy_us);
  CHECK(uploaded.bytes_done == bytes_of(contents));
  check_contents(targets, contents);
}

TEST_CASE("transfer: copies that end late and out of order, in a full ring") {
  const auto contents = sample();
  const UniqueFd file = memfd_of({});
  {
    PagesWriter out(file.get(), kPages);
    Job job;
    drain(job.engine, buffers_of(contents), out, kWork, {}, job.progress);
    out.finish();
    job.check_clean();
    CHECK(job.engine.most_in_flight == kRing.slots);
  }
  const auto targets = dirty_buffers_of(contents);
  Job job;
  // With two in flight none is started but one whose slot is filled already: workers get the time
  // for that.
  job.engine.on_event = [&engine = job.engine] {
    if (engine.in_flight() == 1 && engine.most_in_flight < kRing.slots) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  };
  CHECK_FALSE(job.upload_all(targets, file.get()));
  job.check_clean();
  CHECK(job.engine.most_in_flight == kRing.slots);
  check_contents(targets, contents);
}

TEST_CASE("transfer: a ring of one slot works too") {
  Job job(EngineOptions{.slots = 1, .slot_bytes = kFrame});
  check_upload(job, sample());
}

TEST_CASE("transfer: slots larger than a frame can upload") {
  Job job(EngineOptions{.slots = 2, .slot_bytes = 2 * kFrame});
  check_upload(job, sample());
}

TEST_CASE("transfer: many small buffers, few imported at a time") {
  std::vector<std::vector<std::byte>> contents;
  for (unsigned i = 0; i < 300; ++i) contents.push_back(noise(4096 * (1 + i % 3), i));
  Job out;
  CHECK_FALSE(out.drain_all(buffers_of(contents)));
  out.check_clean();
  CHECK(out.engine.imported.size() == contents.size());
  CHECK(out.engine.most_live <= kRing.slots * kMaxSegments + 1);
  // As many as fit share a copy.
  CHECK(out.engine.starts <= contents.size() / kMaxSegments + 1);

  Job in;
  check_upload(in, contents);
  CHECK(in.engine.imported.size() == contents.size());
  CHECK(in.engine.most_live <= kRing.slots * kMaxSegments + 1);
  CHECK(in.engine.starts <= contents.size() / kMaxSegments + 1);
}

TEST_CASE("transfer: zeros reach past the zeros a slot already has") {
  const std::vector<std::vector<std::byte>> contents = {
      noise(kFrame, 1), std::vector<std::byte>(4096), std::vector<std::byte>(kFrame),
      std::vector<std::byte>(2 * kFrame)};
  Job job(EngineOptions{.slots = 1, .slot_bytes = kFrame});
  check_upload(job, contents);
}

TEST_CASE("transfer: a part of the buffers, in any order, is read in the order of the file") {
  const auto contents = sample();
  const UniqueFd file = pages_of(contents);
  auto targets = dirty_buffers_of(contents);
  targets.erase(targets.begin() + 1);
  std::reverse(targets.begin(), targets.end());
  Job job;
  CHECK_FALSE(job.upload_all(targets, file.get()));
  job.check_clean();
  for (const ContentBuffer& target : targets) {
    CHECK(content_of(target.dmabuf.get()) == contents[target.id - 10]);
  }
  std::vector<std::uint64_t> order;
  for (auto target = targets.rbegin(); target != targets.rend(); ++target) {
    order.push_back(target->size);
  }
  CHECK(job.engine.imported == order);
}

TEST_CASE("transfer: cancelled at every point, nothing stays in flight") {
  const auto contents = sample();
  const UniqueFd file = pages_of(contents);
  const auto buffers = buffers_of(contents);
  Job whole;
  REQUIRE_FALSE(whole.drain_all(buffers));
  Job filled;
  REQUIRE_FALSE(filled.upload_all(buffers, file.get()));
  // Each copy has a start and a wait. A stop that comes with the last wait comes too late to
  // matter.
  const auto expected = [](const Job& job, std::size_t event) {
    return event + 1 == 2 * job.engine.starts ? std::nullopt : std::optional(ErrorCode::cancelled);
  };
  for (std::size_t event = 0; event < 2 * whole.engine.starts; ++event) {
    CAPTURE(event);
    Job out;
    out.stop_at(event);
    CHECK(out.drain_all(buffers) == expected(whole, event));
    out.check_clean();
  }
  for (std::size_t event = 0; event < 2 * filled.engine.starts; ++event) {
    CAPTURE(event);
    Job in;
    in.stop_at(event);
    CHECK(in.upload_all(buffers, file.get()) == expected(filled, event));
    in.check_clean();
    CHECK(in.progress.bytes_done <= bytes_of(contents));
  }
}

TEST_CASE("transfer: cancelled before it began, nothing is touched") {
  const auto contents = sample();
  const UniqueFd file = pages_of(contents);
  const auto buffers = buffers_of(contents);
  Job job;
  job.stop.request_stop();
  CHECK(job.drain_all(buffers) == ErrorCode::cancelled);
  CHECK(job.upload_all(buffers, file.get()) == ErrorCode::cancelled);
  CHECK(job.engine.imported.empty());
}

TEST_CASE("transfer: any copy or import that fails ends the job, with nothing in flight") {
  const auto contents = sample();
  const UniqueFd file = pages_of(contents);
  const auto buffers = buffers_of(contents);
  const auto faults_of = [](const FakeEngine& engine) {
    std::vector<Faults> faults;
    for (std::size_t n = 0; n < engine.starts; ++n) faults.push_back({.start = n});
    for (std::size_t n = 0; n < engine.starts; ++n) faults.push_back({.wait = n});
    for (std::size_t n = 0; n < engine.imported.size(); ++n) faults.push_back({.import = n});
    return faults;
  };
  Job whole;
  REQUIRE_FALSE(whole.drain_all(buffers));
  for (const Faults& fault : faults_of(whole.engine)) {
    Job out(fault);
    CHECK(out.drain_all(buffers) == ErrorCode::gpu);
    out.check_clean();
  }
  Job filled;
  REQUIRE_FALSE(filled.upload_all(buffers, file.get()));
  for (const Faults& fault : faults_of(filled.engine)) {
    Job in(fault);
    CHECK(in.upload_all(buffers, file.get()) == ErrorCode::gpu);
    in.check_clean();
  }
}

TEST_CASE("transfer: errors of the engine name the buffer") {
  const auto contents = sample();
  const auto buffers = buffers_of(contents);
  const auto message = [&](const Faults& faults) -> std::string {
    FakeEngine engine(kRing, faults);
    const UniqueFd file = memfd_of({});
    PagesWriter out(file.get(), kPages);
    TransferProgress progress;
    try {
      drain(engine, buffers, out, kWork, {}, progress);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message({.start = 1}) == "buffer 11: fake start");
  CHECK(message({.wait = 2}) == "buffer 12: fake wait");
  CHECK(message({.import = 4}) == "buffer 14: fake import");

  std::vector<std::vector<std::byte>> small;
  for (unsigned i = 0; i < 3; ++i) small.push_back(noise(4096, i));
  Job job(Faults{.wait = 0});
  const UniqueFd file = memfd_of({});
  PagesWriter out(file.get(), kPages);
  try {
    drain(job.engine, buffers_of(small), out, kWork, {}, job.progress);
    FAIL("a copy that fails went unnoticed");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "buffers 10 to 12: fake wait");
  }
}

TEST_CASE("transfer: a file that cannot grow ends a drain with its errno, whoever writes") {
  const auto buffers = buffers_of(sample());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const std::size_t workers : {1, 3}) {
    CAPTURE(workers);
    const UniqueFd file = memfd_of({});
    PagesWriter out(file.get(), kPages);
    Job job;
    rlimit small = before;
    small.rlim_cur = 2 * kFrame;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    int err = 0;
    ErrorCode code = ErrorCode::cancelled;
    try {
      drain(job.engine, buffers, out, {.workers = workers}, {}, job.progress);
    } catch (const Error& error) {
      code = error.code;
      err = error.err;
    }
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(code == ErrorCode::io);
    CHECK(err == EFBIG);
    job.check_clean();
  }
  std::signal(SIGXFSZ, handler);
}

TEST_CASE("transfer: however many workers, the file is the same and so is what it restores") {
  auto contents = sample();
  for (unsigned i = 0; i < 40; ++i) contents.push_back(std::vector<std::byte>(4096, std::byte{9}));
  for (const bool compress : {false, true}) {
    CAPTURE(compress);
    PagesOptions options = kPages;
    options.compress = compress ? Compress::zstd : Compress::none;
    options.share = compress;
    std::vector<std::byte> first;
    for (const std::size_t workers : {1, 2, 7}) {
      CAPTURE(workers);
      const UniqueFd file = memfd_of({});
      PagesWriter out(file.get(), options);
      Job job(EngineOptions{.slots = 8, .slot_bytes = kFrame});
      const TransferStats stats =
          drain(job.engine, buffers_of(contents), out, {.workers = workers}, {}, job.progress);
      out.finish();
      job.check_clean();
      CHECK(stats.workers == workers);
      CHECK(stats.code.bytes == bytes_of(contents));
      std::uint64_t stored = 0;
      const PagesReader written(file.get());
      std::set<std::uint64_t> places;
      for (std::uint64_t i = 0; i < written.summary().frames; ++i) {
        const FrameEntry frame = written.frame(i);
        if (frame.stored > 0 && places.insert(frame.offset).second) stored += frame.stored;
      }
      CHECK(stats.file.bytes == stored);
      if (first.empty()) first = content_of(file.get());
      CHECK(content_of(file.get()) == first);

      const auto targets = dirty_buffers_of(contents);
      Job in(EngineOptions{.slots = 8, .slot_bytes = kFrame});
      const PagesReader reader(file.get());
      CHECK(upload(in.engine, targets, reader, {.workers = workers}, {}, in.progress).bytes ==
            bytes_of(contents));
      in.check_clean();
      check_contents(targets, contents);
    }
  }
}

TEST_CASE("transfer: a frame that does not match its checksum is never uploaded") {
  const auto contents = sample();
  const UniqueFd file = pages_of(contents);
  std::uint64_t at = 0;
  {
    const PagesReader in(file.get());
    at = in.frame(in.buffers().at(2).first_frame + 1).offset + 12345;
  }
  std::byte flipped{};
  REQUIRE(::pread(file.get(), &flipped, 1, static_cast<off_t>(at)) == 1);
  flipped ^= std::byte{1};
  REQUIRE(::pwrite(file.get(), &flipped, 1, static_cast<off_t>(at)) == 1);
  Job job;
  const auto targets = dirty_buffers_of(contents);
  CHECK(job.upload_all(targets, file.get()) == ErrorCode::corrupt);
  job.check_clean();
  const auto found = content_of(targets[2].dmabuf.get());
  CHECK(std::all_of(found.begin() + kFrame, found.end(),
                    [](std::byte b) { return b == std::byte{0xa5}; }));
}

TEST_CASE("transfer: a buffer the file lacks or holds with another size is corrupt, at once") {
  const auto contents = sample();
  const UniqueFd file = pages_of(contents);
  auto unknown = dirty_buffers_of(contents);
  unknown.back().id = 99;
  Job job;
  CHECK(job.upload_all(unknown, file.get()) == ErrorCode::corrupt);
  CHECK(job.engine.starts == 0);
  auto larger = dirty_buffers_of(contents);
  larger.back().size += 4096;
  CHECK(job.upload_all(larger, file.get()) == ErrorCode::corrupt);
  CHECK(job.engine.starts == 0);
}

TEST_CASE("transfer: slots smaller than a frame are refused") {
  const auto contents = sample();
  const UniqueFd file = pages_of(contents);
  FakeEngine engine({.slots = 2, .slot_bytes = kFrame / 2});
  const PagesReader in(file.get());
  TransferProgress progress;
  CHECK(code_of([&] { upload(engine, dirty_buffers_of(contents), in, kWork, {}, progress); }) ==
        ErrorCode::unsupported);
}
