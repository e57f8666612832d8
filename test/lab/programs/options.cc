#include "options.h"

#include <charconv>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace lab {
namespace {

struct Switch {
  std::string_view name;
  bool Options::*member;
};

constexpr Switch kSwitches[] = {
    {"--compressible", &Options::compressible},
    {"--pending-barrier", &Options::pending_barrier},
    {"--events-waiter", &Options::events_waiter},
    {"--dmabuf", &Options::dmabuf},
    {"--gem", &Options::gem},
    {"--double-render", &Options::double_render},
    {"--fork-holder", &Options::fork_holder},
    {"--double-kfd", &Options::double_kfd},
    {"--other-gpu", &Options::other_gpu},
    {"--split", &Options::split},
    {"--map-dmabuf", &Options::map_dmabuf},
    {"--io-uring", &Options::io_uring},
    {"--share", &Options::share},
    {"--ipc", &Options::ipc},
};

struct Number {
  std::string_view name;
  std::uint64_t max;
  void (*store)(Options&, std::uint64_t);
};

constexpr std::uint64_t kMaxMib = std::uint64_t{1} << 20;  // 1 TiB: no shift below overflows
constexpr std::uint64_t kMaxKib = kMaxMib << 10;
constexpr std::uint64_t kMaxMs = 3'600'000;
constexpr std::uint64_t kMaxDispatchMs = 200'000;  // of 256 steps, each of at most a second
constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

constexpr Number kNumbers[] = {
    {"--vram-mib", kMaxMib, [](Options& o, std::uint64_t n) { o.vram_bytes = n << 20; }},
    {"--bos", 100'000, [](Options& o, std::uint64_t n) { o.buffer_count = n; }},
    {"--bo-kib", kMaxKib, [](Options& o, std::uint64_t n) { o.buffer_bytes = n << 10; }},
    {"--host-mib", kMaxMib, [](Options& o, std::uint64_t n) { o.host_bytes = n << 20; }},
    {"--changing-mib", kMaxMib, [](Options& o, std::uint64_t n) { o.changing_bytes = n << 20; }},
    {"--changes-mib", kMaxMib, [](Options& o, std::uint64_t n) { o.changes_bytes = n << 20; }},
    {"--seed", kMax64, [](Options& o, std::uint64_t n) { o.seed = n; }},
    {"--gpu", 7, [](Options& o, std::uint64_t n) { o.gpu = n; }},
    {"--peer-gpu", 7, [](Options& o, std::uint64_t n) { o.peer_gpu = n; }},
    {"--dispatch-ms", kMaxDispatchMs,
     [](Options& o, std::uint64_t n) { o.dispatch = std::chrono::milliseconds(n); }},
    {"--step-ms", kMaxMs,
     [](Options& o, std::uint64_t n) { o.step_every = std::chrono::milliseconds(n); }},
    {"--timeout-ms", kMaxMs,
     [](Options& o, std::uint64_t n) { o.limit = std::chrono::milliseconds(n); }},
};

struct Text {
  std::string_view name;
  std::string Options::*member;
};

constexpr Text kTexts[] = {
    {"--control", &Options::control_dir},
    {"--status", &Options::status_file},
};

template <typename Table>
auto find(const Table& table, std::string_view name) -> decltype(&table[0]) {
  for (const auto& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::uint64_t parse_number(const std::string& name, const std::string& text, std::uint64_t max) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value > max) {
    throw std::invalid_argument(name + ": \"" + text + "\" is not a number from 0 to " +
                                std::to_string(max));
  }
  return value;
}

void check_combination(const Options& o) {
  if (o.buffer_bytes == 0 || o.buffer_bytes % 4096 != 0) {
    throw std::invalid_argument("--bo-kib: it must be a multiple of 4 above 0");
  }
  if (o.dmabuf && o.vram_bytes == 0 && o.buffer_count == 0) {
    throw std::invalid_argument("--dmabuf: it needs --vram-mib or --bos");
  }
  if (o.changes_bytes > o.changing_bytes) {
    throw std::invalid_argument("--changes-mib: it is more than --changing-mib");
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") {
      std::cout << usage();
      std::exit(0);
    }
    if (const Switch* entry = find(kSwitches, name)) {
      o.*entry->member = true;
      continue;
    }
    const Number* number = find(kNumbers, name);
    const Text* text = find(kTexts, name);
    if (number == nullptr && text == nullptr)
      throw std::invalid_argument(name + ": no such option");
    if (++i == argc) throw std::invalid_argument(name + ": it needs a value");
    if (number != nullptr) number->store(o, parse_number(name, argv[i], number->max));
    if (text != nullptr) o.*text->member = argv[i];
  }
  check_combination(o);
  if (o.status_file.empty()) o.status_file = o.control_dir + "/status";
  return o;
}

std::string_view usage() {
  return R"(usage: gpu-worker [options]
Holds known data on a GPU, keeps computing, and proves on request that all of it is right.
  --vram-mib N       one VRAM buffer of N MiB
  --bos N            N more VRAM buffers, each a BO of its own
  --bo-kib K         their size in KiB (64), a multiple of 4
  --host-mib N       N MiB of anonymous host memory
  --changing-mib N   one more VRAM buffer of N MiB, which compression makes several times smaller
  --changes-mib N    of which each step of the counter writes the first N MiB anew (0)
  --seed S           of all contents (1)
  --compressible     contents that compression makes several times smaller
  --gpu N            work on the N-th GPU it sees (0)
  --pending-barrier  keep an AQL barrier packet pending
  --events-waiter    keep a thread asleep in a wait for a GPU event
  --dmabuf           hold a dma-buf of the first VRAM buffer
  --gem              open the render node once more and hold a GEM BO on it
  --double-render    the same, with one more idle descriptor of the render node
  --fork-holder      keep a sleeping child that inherited /dev/kfd
  --double-kfd       open /dev/kfd a second time
  --other-gpu        hold a VRAM BO of another GPU, mapped on both
  --split            split the mapping of a BO, and put a mapped file between BOs
  --map-dmabuf       map a dma-buf by its descriptor
  --io-uring         hold rings of io_uring
  --share            share a BO with a second GPU process
  --peer-gpu N       with --share: that process works on the N-th GPU it sees (0)
  --ipc              with --share: another one by ROCr's IPC, which wants ROCr 6.4 or newer
  --dispatch-ms MS   start a dispatch that takes MS ms on the GPU (simulated GPU only)
  --step-ms MS       one step of the counter in VRAM every MS ms (100; 0: none)
  --timeout-ms MS    limit of every wait for the GPU (60000)
  --control DIR      where commands come from and replies go to (/ctl)
  --status FILE      where the line "ready ..." goes (DIR/status)
Commands, one line in DIR/cmd, with an optional id that the reply repeats:
  verify [id]        release the barrier, wake the waiter, read back and compare everything
  status [id]        the counter, and how far the dispatch is
  churn [id]         new buffers, copies and one more queue
  spoil [id]         flip one bit of VRAM: every verify after it has to fail
  exit [id]          end with exit code 0
Replies are appended to DIR/out and stdout; the first word is verified, running, churned, spoiled,
exiting or failed.
)";
}

}  // namespace lab
