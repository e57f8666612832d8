// pipeline DIR MIB LINK_MB_S RUNS [transfers]
//
// Drains and uploads MIB MiB through a modelled link and real files in DIR, RUNS times, and beside
// it what they are to be compared with: a serial loop as peers have it, and the file alone. Warm
// restores also at other rates of the link. Prints one JSON object a line: case, link_mb_s, run,
// bytes, seconds, resident (part of the file in the page cache before), for transfers their stages.
// The device is a clock: a copy takes its bytes at LINK_MB_S (10^6 bytes a second) after the one
// before it and 5 us, and no time of a processor. Exits 0, 1 on an error, 2 on wrong usage.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/copy/copy_staging.h"
#include "core/os/error.h"
#include "core/os/page_memory.h"
#include "core/transfer/transfer.h"

namespace {

using namespace kfdcp;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kFrame = 2u << 20;
constexpr std::size_t kWorkers = 4;
constexpr double kOtherLinks[] = {2e9, 4e9, 8e9, 16e9};  // bytes per second
constexpr auto kPerCopy = std::chrono::microseconds(5);

/// When copies of a link end.
class Link {
 public:
  explicit Link(double bytes_per_s) : ns_per_byte_(1e9 / bytes_per_s) {}
  Clock::time_point start(std::uint64_t bytes) {
    const auto time = std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(bytes) * ns_per_byte_));
    free_ = std::max(free_, Clock::now()) + time + kPerCopy;
    return free_;
  }

 private:
  double ns_per_byte_;
  Clock::time_point free_{};
};

/// A device behind a Link. What it holds is noise, another one in each segment.
class ModelEngine final : public CopyEngine {
 public:
  ModelEngine(const EngineOptions& options, double bytes_per_s)
      : staging_(options), link_(bytes_per_s), ends_(options.slots) {
    std::mt19937_64 random(1);
    for (std::size_t at = 0; at < staging_.all().size(); at += 8) {
      const std::uint64_t word = random();
      std::memcpy(staging_.all().data() + at, &word, sizeof word);
    }
  }
  std::size_t slots() const override { return staging_.slots(); }
  std::size_t slot_bytes() const override { return staging_.slot_bytes(); }
  std::span<std::byte> slot(std::size_t index) override { return staging_.slot(index); }
  std::unique_ptr<DeviceBuffer> import(int, std::uint64_t, std::uint64_t) override {
    return std::make_unique<DeviceBuffer>();
  }
  void start_read(std::span<const CopySegment> from, std::size_t slot) override {
    for (const CopySegment& segment : from) {
      ++stamp_;
      std::memcpy(staging_.slot(slot).data() + segment.slot_offset, &stamp_, sizeof stamp_);
    }
    start_write(from, slot);
  }
  void start_write(std::span<const CopySegment> to, std::size_t slot) override {
    std::uint64_t bytes = 0;
    for (const CopySegment& segment : to) bytes += segment.bytes;
    ends_[slot] = link_.start(bytes);
  }
  void wait(std::size_t slot) override { std::this_thread::sleep_until(ends_[slot]); }
  /// Between transfers.
  void set_link(double bytes_per_s) { link_ = Link(bytes_per_s); }

 private:
  Staging staging_;
  Link link_;
  std::vector<Clock::time_point> ends_;
  std::uint64_t stamp_ = 0;
};

struct Bench {
  std::string path;  // of the pages file
  std::uint64_t bytes;
  double link;          // bytes per second
  ModelEngine& engine;  // made once: its noise takes longer than a transfer
  int run = 0;

  UniqueFd open(int flags) const {
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
    if (!fd) throw io_error(path);
    return fd;
  }
};

std::uint64_t size_of(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) throw io_error("fstat");
  return static_cast<std::uint64_t>(st.st_size);
}

double residency(const Bench& bench) {
  const UniqueFd fd = bench.open(O_RDONLY);
  const std::size_t size = size_of(fd.get());
  if (size == 0) return 0;
  void* base = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) throw io_error("mmap");
  const Mapping view(base, size);
  std::vector<unsigned char> pages((size + kPageBytes - 1) / kPageBytes);
  if (::mincore(base, size, pages.data()) != 0) throw io_error("mincore");
  std::size_t found = 0;
  for (const unsigned char page : pages) found += page & 1u;
  return static_cast<double>(found) / static_cast<double>(pages.size());
}

void evict(const Bench& bench) {
  const UniqueFd fd = bench.open(O_RDONLY);
  if (::fsync(fd.get()) != 0) throw io_error("fsync");
  if (::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) != 0) throw io_error("fadvise");
}

/// Into the page cache, all of it.
void warm(const Bench& bench) {
  const UniqueFd fd = bench.open(O_RDONLY);
  const Mapping memory = page_memory(kFrame);
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(fd.get(), memory.data(), kFrame, at);
    if (n < 0) throw io_error(bench.path);
    if (n == 0) return;
    at += n;
  }
}

void print(const Bench& bench, const char* name, double seconds, double resident,
           const TransferStats* stats) {
  std::printf(
      "{\"case\":\"%s\",\"link_mb_s\":%.0f,\"run\":%d,\"bytes\":%llu,\"seconds\":%.6f,"
      "\"resident\":%.4f",
      name, bench.link / 1e6, bench.run, static_cast<unsigned long long>(bench.bytes), seconds,
      resident);
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
  const auto begin = Clock::now();
  const bool transfer = work(stats);
  const std::chrono::duration<double> time = Clock::now() - begin;
  print(bench, name, time.count(), resident, transfer ? &stats : nullptr);
}

std::vector<ContentBuffer> buffers_of(const Bench& bench, std::uint64_t each) {
  std::vector<ContentBuffer> buffers;
  for (std::uint64_t at = 0; at < bench.bytes; at += each) {
    buffers.push_back({static_cast<std::uint32_t>(buffers.size()), each, UniqueFd()});
  }
  return buffers;
}

bool checkpoint(const Bench& bench, std::uint64_t each, TransferStats& stats) {
  const UniqueFd file = bench.open(O_RDWR | O_CREAT | O_EXCL);
  PagesWriter out(file.get(), {.share = true, .frame_bytes = kFrame});
  TransferProgress progress;
  stats = drain(bench.engine, buffers_of(bench, each), out, {.workers = kWorkers}, {}, progress);
  out.finish();
  if (::fsync(file.get()) != 0) throw io_error("fsync");
  return true;
}

/// That an earlier file goes takes as long as it is large: it is not part of a checkpoint.
void measure_checkpoint(const Bench& bench, const char* name, std::uint64_t each) {
  ::unlink(bench.path.c_str());
  measure(bench, name, [&](auto& stats) { return checkpoint(bench, each, stats); });
}

bool restore(const Bench& bench, std::uint64_t each, TransferStats& stats) {
  const UniqueFd file = bench.open(O_RDONLY);
  const PagesReader in(file.get());
  TransferProgress progress;
  stats = upload(bench.engine, buffers_of(bench, each), in, {.workers = kWorkers}, {}, progress);
  return true;
}

/// Read or write a chunk, copy it, wait, next. The bounce buffer has the size of the largest BO, an
/// eighth of the whole, and is new, as it is for each restore.
bool serial(const Bench& bench, bool to_disk) {
  const std::size_t chunk = (bench.bytes / 8) & ~(kPageBytes - 1);
  const Mapping bounce = page_memory(chunk);
  Link link(bench.link);
  const UniqueFd file = bench.open(to_disk ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY);
  std::FILE* stream = ::fdopen(::dup(file.get()), to_disk ? "w" : "r");
  if (stream == nullptr) throw io_error(bench.path);
  bool good = true;
  for (int i = 0; i < 8 && good; ++i) {
    if (to_disk) {
      std::memset(bounce.data(), i + 1, i == 0 ? chunk : kPageBytes);  // what the copy brings
      std::this_thread::sleep_until(link.start(chunk));
      good = std::fwrite(bounce.data(), 1, chunk, stream) == chunk;
    } else {
      good = std::fread(bounce.data(), 1, chunk, stream) == chunk;
      std::this_thread::sleep_until(link.start(chunk));
    }
  }
  good = std::fclose(stream) == 0 && good;
  if (to_disk && ::fsync(file.get()) != 0) throw io_error("fsync");
  if (!good) throw io_error(bench.path);
  return false;
}

/// The file alone, in requests of a frame by `threads` threads.
bool file_alone(const Bench& bench, int flags, std::size_t threads) {
  const bool write = (flags & O_ACCMODE) != O_RDONLY;
  const UniqueFd file = bench.open(flags);
  std::atomic<std::uint64_t> next = 0;
  std::atomic<bool> good = true;
  std::vector<std::jthread> team;
  for (std::size_t t = 0; t < threads; ++t) {
    team.emplace_back([&] {
      const Mapping memory = page_memory(kFrame);
      std::memset(memory.data(), 7, kFrame);
      for (std::uint64_t at = next.fetch_add(kFrame); at + kFrame <= bench.bytes;
           at = next.fetch_add(kFrame)) {
        const auto offset = static_cast<off_t>(at);
        const ssize_t n = write ? ::pwrite(file.get(), memory.data(), kFrame, offset)
                                : ::pread(file.get(), memory.data(), kFrame, offset);
        if (n != static_cast<ssize_t>(kFrame)) good = false;
      }
    });
  }
  team.clear();
  if (write && ::fsync(file.get()) != 0) throw io_error("fsync");
  if (!good) throw io_error(bench.path);
  return false;
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
  measure(bench, "restore_warm", [&](auto& stats) { return restore(bench, large, stats); });
  measure(bench, "restore_warm_serial", [&](auto&) { return serial(bench, false); });
  // How that depends on the link.
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
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipeline: %s\n", error.what());
    return 1;
  }
  return 0;
}
