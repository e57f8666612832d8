#include "core/transfer/transfer.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/transfer/transfer_job.h"

using namespace kfdcp;
using namespace kfdcp::test;

TEST_CASE("transfer: what the CPU engine drained it puts back, whatever was there") {
  const auto contents = sample();
  const UniqueFd file = memory_file();
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
  const UniqueFd file = memory_file();
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
      const UniqueFd file = memory_file();
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
