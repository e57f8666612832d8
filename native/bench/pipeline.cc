// pipeline DIR MIB LINK_MB_S RUNS [transfers]
//
// Drains and uploads MIB MiB through a modelled link and real files in DIR, RUNS times, and beside
// it what they are to be compared with: a serial loop as peers have it, and the file alone. Warm
// restores also at other rates of the link, and beside a ring that is a single BO: cases that end
// in one_bo. Copies alone at a fast link. Prints one JSON object a line: case, link_mb_s, run,
// bytes, seconds, submit_us, resident (part of the file in the page cache before), for transfers
// their stages. The device is a clock: a copy takes its bytes at LINK_MB_S (10^6 bytes a second)
// after the one before it and 5 us. To start it takes 10 ns of a processor for each page of staging
// memory that it lists. Copies alone have a clock of their own: processor time, and time asleep.
// Exits 0, 1 on an error, 2 on wrong usage.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "bench/pipeline_model.h"
#include "bench/pipeline_work.h"
#include "core/os/error.h"

namespace {

using namespace kfdcp;
using namespace kfdcp::bench;

constexpr double kOtherLinks[] = {2e9, 4e9, 8e9, 16e9};  // bytes per second
constexpr double kFastLink = 55e9;                       // 16 lanes of PCIe 5.0 in practice

void print(const Bench& bench, const char* name, double seconds, double resident,
           const TransferStats* stats) {
  std::printf(
      "{\"case\":\"%s\",\"link_mb_s\":%.0f,\"run\":%d,\"bytes\":%llu,\"seconds\":%.6f,"
      "\"resident\":%.4f,\"submit_us\":%.0f",
      name, bench.link / 1e6, bench.run, static_cast<unsigned long long>(bench.bytes), seconds,
      resident, static_cast<double>(bench.engine.submitted().count()) / 1e3);
  if (stats != nullptr) {
    std::printf(
        ",\"slowest\":\"%s\",\"file_us\":%llu,\"code_us\":%llu,\"hash_us\":%llu,"
        "\"copy_wait_us\":%llu,\"work_wait_us\":%llu,\"direct_bytes\":%llu",
        stats->slowest(), static_cast<unsigned long long>(stats->file.busy_us),
        static_cast<unsigned long long>(stats->code.busy_us),
        static_cast<unsigned long long>(stats->hash.busy_us),
        static_cast<unsigned long long>(stats->copy_wait_us),
        static_cast<unsigned long long>(stats->work_wait_us),
        static_cast<unsigned long long>(stats->direct_bytes));
  }
  std::puts("}");
  std::fflush(stdout);
}

template <class Work>
void measure(const Bench& bench, const char* name, Work&& work) {
  const double resident = ::access(bench.path.c_str(), F_OK) == 0 ? residency(bench) : 0;
  TransferStats stats;
  const auto begin = bench.engine.now();
  const bool transfer = work(stats);
  const std::chrono::duration<double> time = bench.engine.now() - begin;
  print(bench, name, time.count(), resident, transfer ? &stats : nullptr);
}

/// That an earlier file goes takes as long as it is large: it is not part of a checkpoint.
void measure_checkpoint(const Bench& bench, const char* name, std::uint64_t each) {
  ::unlink(bench.path.c_str());
  measure(bench, name, [&](auto& stats) { return checkpoint(bench, each, stats); });
}

/// The same with a slot for a BO, and with the ring.
template <class Work>
void measure_both(const Bench& bench, const std::string& name, Work&& work) {
  for (const Pinned pinned : {Pinned::ring, Pinned::slots}) {
    bench.engine.set_pinned(pinned);
    measure(bench, (pinned == Pinned::ring ? name + "_one_bo" : name).c_str(), work);
  }
}

void run(const Bench& bench) {
  Bench plain = bench;
  plain.path += ".plain";
  measure(plain, "write_direct",
          [&](auto&) { return file_alone(plain, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 1); });
  measure(plain, "checkpoint_serial", [&](auto&) { return serial(plain, true); });
  ::unlink(plain.path.c_str());
  const std::uint64_t large = bench.bytes / 8;
  measure_checkpoint(bench, "checkpoint", large);
  evict(bench);
  measure(bench, "read_cold_direct",
          [&](auto&) { return file_alone(bench, O_RDONLY | O_DIRECT, 1); });
  evict(bench);
  measure(bench, "restore_cold", [&](auto& stats) { return restore(bench, large, stats); });
  evict(bench);
  measure(bench, "restore_cold_serial", [&](auto&) { return serial(bench, false); });
  warm(bench);
  measure(bench, "read_warm", [&](auto&) { return file_alone(bench, O_RDONLY, kWorkers); });
  measure_both(bench, "restore_warm", [&](auto& stats) { return restore(bench, large, stats); });
  measure(bench, "restore_warm_serial", [&](auto&) { return serial(bench, false); });
  // The same for other rates of the link.
  for (const double link : kOtherLinks) {
    Bench other = bench;
    other.link = link;
    other.engine.set_link(link);
    measure(other, "restore_warm", [&](auto& stats) { return restore(other, large, stats); });
    measure(other, "restore_warm_serial", [&](auto&) { return serial(other, false); });
  }
  bench.engine.set_link(bench.link);

  Bench small = bench;
  constexpr std::uint64_t kSmall = 64u << 10;
  small.bytes = std::min<std::uint64_t>(bench.bytes, 10000 * kSmall);
  measure_checkpoint(small, "small_checkpoint", kSmall);
  warm(small);
  measure(small, "small_restore_warm", [&](auto& stats) { return restore(small, kSmall, stats); });
  measure_checkpoint(small, "one_checkpoint", small.bytes);
  warm(small);
  measure(small, "one_restore_warm",
          [&](auto& stats) { return restore(small, small.bytes, stats); });
  ::unlink(bench.path.c_str());
}

void run_copies(ModelEngine& engine, int run) {
  const Bench fast{"", std::uint64_t{8} << 30, kFastLink, engine, run};
  measure_both(fast, "copies", [&](auto&) { return copies(fast); });
}

void run_transfers(const Bench& bench) {
  const std::uint64_t large = bench.bytes / 8;
  measure_checkpoint(bench, "checkpoint", large);
  warm(bench);
  measure(bench, "restore_warm", [&](auto& stats) { return restore(bench, large, stats); });
  ::unlink(bench.path.c_str());
}

bool number(const char* text, std::uint64_t& value) {
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  return error == std::errc{} && rest == end && value > 0 && value <= 1u << 20;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t mib = 0;
  std::uint64_t link = 0;
  std::uint64_t runs = 0;
  const bool transfers = argc == 6 && std::strcmp(argv[5], "transfers") == 0;
  if ((argc != 5 && !transfers) || !number(argv[2], mib) || !number(argv[3], link) ||
      !number(argv[4], runs)) {
    std::fprintf(stderr, "usage: pipeline DIR MIB LINK_MB_S RUNS [transfers]\n");
    return 2;
  }
  (void)::prctl(PR_SET_TIMERSLACK, 1000);
  try {
    const double rate = static_cast<double>(link) * 1e6;
    ModelEngine engine({.slots = 24, .slot_bytes = kFrame}, rate);
    Bench bench{std::string(argv[1]) + "/pipeline.img", (mib << 20) & ~(8 * kFrame - 1), rate,
                engine};
    if (bench.bytes == 0) throw Error(ErrorCode::unsupported, "MIB: 16 at least");
    for (; bench.run < static_cast<int>(runs); ++bench.run) {
      transfers ? run_transfers(bench) : run(bench);
    }
    if (transfers) return 0;
    ModelEngine largest({.slots = kMaxSlots, .slot_bytes = kFrame}, kFastLink);
    largest.be_alone();
    for (int run = 0; run < static_cast<int>(runs); ++run) run_copies(largest, run);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipeline: %s\n", error.what());
    return 1;
  }
  return 0;
}
