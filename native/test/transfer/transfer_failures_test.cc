// The end of drains and uploads that are cancelled or refused, or whose files or engine fail.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "core/os/error.h"
#include "core/transfer/transfer.h"
#include "test/copy/fake_engine.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/transfer/transfer_job.h"

using namespace kfdcp;
using namespace kfdcp::test;

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
    const UniqueFd file = memory_file();
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
  const UniqueFd file = memory_file();
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
    const UniqueFd file = memory_file();
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
