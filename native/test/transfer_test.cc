#include "core/transfer.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "core/error.h"
#include "transfer_fakes.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

constexpr std::size_t kFrame = 1u << 20;
constexpr EngineOptions kRing{.slots = 3, .slot_bytes = kFrame};
const PagesOptions kPages{.frame_bytes = kFrame};

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
  drain(*engine, buffers_of(contents), out, {}, progress);
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
    return code_of([&] { drain(engine, buffers, out, stop.get_token(), progress); });
  }
  std::optional<ErrorCode> upload_all(const std::vector<ContentBuffer>& buffers, int file) {
    const PagesReader in(file);
    return code_of([&] { upload(engine, buffers, in, stop.get_token(), progress); });
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
  const TransferStats stats = drain(*engine, buffers_of(contents), out, {}, drained);
  const PagesSummary summary = out.finish();
  CHECK(stats.bytes == bytes_of(contents));
  CHECK(drained.bytes_done == bytes_of(contents));
  CHECK(summary.content_bytes == bytes_of(contents));
  CHECK(summary.zero_frames == 6);

  const auto targets = dirty_buffers_of(contents);
  const PagesReader in(file.get());
  TransferProgress uploaded;
  CHECK(upload(*engine, targets, in, {}, uploaded).bytes == bytes_of(contents));
  CHECK(uploaded.bytes_done == bytes_of(contents));
  check_contents(targets, contents);
}

TEST_CASE("transfer: copies that end late and out of order, in a full ring") {
  const auto contents = sample();
  const UniqueFd file = memfd_of({});
  {
    PagesWriter out(file.get(), kPages);
    Job job;
    drain(job.engine, buffers_of(contents), out, {}, job.progress);
    out.finish();
    job.check_clean();
    CHECK(job.engine.most_in_flight == kRing.slots);
  }
  const auto targets = dirty_buffers_of(contents);
  Job job;
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
  CHECK(out.engine.most_live <= kRing.slots + 1);

  Job in;
  check_upload(in, contents);
  CHECK(in.engine.most_live <= kRing.slots + 1);
  CHECK(in.engine.most_in_flight == kRing.slots);
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
  const std::size_t events = 2 * whole.engine.starts;  // a start and a wait for each copy
  for (std::size_t event = 0; event < events; ++event) {
    CAPTURE(event);
    Job out;
    out.stop_at(event);
    const auto drained = out.drain_all(buffers);
    out.check_clean();
    Job in;
    in.stop_at(event);
    const auto uploaded = in.upload_all(buffers, file.get());
    in.check_clean();
    // A stop that comes with the last wait comes too late to matter.
    const bool late = event + 1 == events;
    CHECK(drained == (late ? std::nullopt : std::optional(ErrorCode::cancelled)));
    CHECK(uploaded == (late ? std::nullopt : std::optional(ErrorCode::cancelled)));
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
  Job whole;
  REQUIRE_FALSE(whole.drain_all(buffers));
  std::vector<Faults> faults;
  for (std::size_t n = 0; n < whole.engine.starts; ++n) faults.push_back({.start = n});
  for (std::size_t n = 0; n < whole.engine.starts; ++n) faults.push_back({.wait = n});
  for (std::size_t n = 0; n < whole.engine.imported.size(); ++n) faults.push_back({.import = n});
  for (std::size_t i = 0; i < faults.size(); ++i) {
    CAPTURE(i);
    Job out(faults[i]);
    CHECK(out.drain_all(buffers) == ErrorCode::gpu);
    out.check_clean();
    Job in(faults[i]);
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
      drain(engine, buffers, out, {}, progress);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message({.start = 1}) == "buffer 11: fake start");
  CHECK(message({.wait = 2}) == "buffer 12: fake wait");
  CHECK(message({.import = 4}) == "buffer 14: fake import");
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
  CHECK(code_of([&] { upload(engine, dirty_buffers_of(contents), in, {}, progress); }) ==
        ErrorCode::unsupported);
}
