#include "bench/pipeline_work.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "core/os/error.h"
#include "core/os/page_memory.h"
#include "core/transfer/transfer_ring.h"

namespace kfdcp::bench {

namespace {

std::uint64_t size_of(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) throw io_error("fstat");
  return static_cast<std::uint64_t>(st.st_size);
}

std::vector<ContentBuffer> buffers_of(const Bench& bench, std::uint64_t each) {
  std::vector<ContentBuffer> buffers;
  for (std::uint64_t at = 0; at < bench.bytes; at += each) {
    buffers.push_back({static_cast<std::uint32_t>(buffers.size()), each, UniqueFd()});
  }
  return buffers;
}

}  // namespace

UniqueFd Bench::open(int flags) const {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd) throw io_error(path);
  return fd;
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

bool checkpoint(const Bench& bench, std::uint64_t each, TransferStats& stats) {
  const UniqueFd file = bench.open(O_RDWR | O_CREAT | O_EXCL);
  PagesWriter out(file.get(), {.share = true, .frame_bytes = kFrame});
  TransferProgress progress;
  stats = drain(bench.engine, buffers_of(bench, each), out, {.workers = kWorkers}, {}, progress);
  out.finish();
  if (::fsync(file.get()) != 0) throw io_error("fsync");
  return true;
}

bool restore(const Bench& bench, std::uint64_t each, TransferStats& stats) {
  const UniqueFd file = bench.open(O_RDONLY);
  const PagesReader in(file.get());
  TransferProgress progress;
  stats = upload(bench.engine, buffers_of(bench, each), in, {.workers = kWorkers}, {}, progress);
  return true;
}

bool copies(const Bench& bench) {
  TransferRing ring(bench.engine);
  const auto wait = [&] {
    for (const std::size_t slot : ring.wait()) ring.give_back(slot);
  };
  {
    const auto live = ring.open(1, -1, bench.bytes);
    for (std::uint64_t at = 0; at < bench.bytes; at += kFrame) {
      if (!ring.has_free()) wait();
      ring.read(ring.take(), {{live, at, 0, kFrame}});
    }
  }
  while (ring.in_flight() > 0) wait();
  return false;
}

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
      std::this_thread::sleep_until(link.start(chunk, Clock::now()));
      good = std::fwrite(bounce.data(), 1, chunk, stream) == chunk;
    } else {
      good = std::fread(bounce.data(), 1, chunk, stream) == chunk;
      std::this_thread::sleep_until(link.start(chunk, Clock::now()));
    }
  }
  good = std::fclose(stream) == 0 && good;
  if (to_disk && ::fsync(file.get()) != 0) throw io_error("fsync");
  if (!good) throw io_error(bench.path);
  return false;
}

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

}  // namespace kfdcp::bench
