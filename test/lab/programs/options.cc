#include "options.h"

#include <getopt.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace lab {
namespace {

enum Id : int {
  kVramMib = 256,
  kBos,
  kBoKib,
  kHostMib,
  kSeed,
  kPendingBarrier,
  kEventsWaiter,
  kDmabuf,
  kGem,
  kDoubleRender,
  kForkHolder,
  kDoubleKfd,
  kSplit,
  kStepMs,
  kTimeoutMs,
  kControl,
  kStatus,
  kHelp,
};

constexpr option kLongOptions[] = {
    {"vram-mib", required_argument, nullptr, kVramMib},
    {"bos", required_argument, nullptr, kBos},
    {"bo-kib", required_argument, nullptr, kBoKib},
    {"host-mib", required_argument, nullptr, kHostMib},
    {"seed", required_argument, nullptr, kSeed},
    {"pending-barrier", no_argument, nullptr, kPendingBarrier},
    {"events-waiter", no_argument, nullptr, kEventsWaiter},
    {"dmabuf", no_argument, nullptr, kDmabuf},
    {"gem", no_argument, nullptr, kGem},
    {"double-render", no_argument, nullptr, kDoubleRender},
    {"fork-holder", no_argument, nullptr, kForkHolder},
    {"double-kfd", no_argument, nullptr, kDoubleKfd},
    {"split", no_argument, nullptr, kSplit},
    {"step-ms", required_argument, nullptr, kStepMs},
    {"timeout-ms", required_argument, nullptr, kTimeoutMs},
    {"control", required_argument, nullptr, kControl},
    {"status", required_argument, nullptr, kStatus},
    {"help", no_argument, nullptr, kHelp},
    {},
};

std::uint64_t number(const char* name, std::uint64_t max) {
  std::uint64_t value = 0;
  const char* end = optarg + std::strlen(optarg);
  const auto [stop, error] = std::from_chars(optarg, end, value);
  if (error != std::errc{} || stop != end || value > max) {
    throw std::invalid_argument(std::string("--") + name + ": \"" + optarg +
                                "\" is not a number from 0 to " + std::to_string(max));
  }
  return value;
}

}  // namespace

const char* usage() {
  return "usage: gpu-worker [options]\n"
         "Holds known data on a GPU, keeps computing, and proves on request that all of it is "
         "right.\n"
         "  --vram-mib N       one VRAM buffer of N MiB\n"
         "  --bos N            N more VRAM buffers, each a BO of its own\n"
         "  --bo-kib K         their size in KiB (64), a multiple of 4\n"
         "  --host-mib N       N MiB of anonymous host memory\n"
         "  --seed S           of all contents (1)\n"
         "  --pending-barrier  keep an AQL barrier packet pending\n"
         "  --events-waiter    keep a thread asleep in a wait for a GPU event\n"
         "  --dmabuf           hold a dma-buf of the first VRAM buffer\n"
         "  --gem              open the render node once more and hold a GEM BO on it\n"
         "  --double-render    the same, with one more idle descriptor of the render node\n"
         "  --fork-holder      keep a sleeping child that inherited /dev/kfd\n"
         "  --double-kfd       open /dev/kfd a second time\n"
         "  --split            split the mapping of a BO, and put a mapped file between BOs\n"
         "  --step-ms MS       one step of the counter in VRAM every MS ms (100; 0: none)\n"
         "  --timeout-ms MS    limit of every wait for the GPU (60000)\n"
         "  --control DIR      where commands come from and replies go to (/ctl)\n"
         "  --status FILE      where the line \"ready ...\" goes (DIR/status)\n"
         "Commands, one line in DIR/cmd, with an optional id that the reply repeats:\n"
         "  verify [id]   release the barrier, wake the waiter, read back and compare everything\n"
         "  status [id]   the counter\n"
         "  churn [id]    new buffers, copies and a second queue\n"
         "  exit [id]     end with exit code 0\n"
         "Replies are appended to DIR/out and stdout: verified, running, churned, exiting or "
         "failed.\n";
}

Options parse_options(int argc, char** argv) {
  constexpr std::uint64_t kMaxMib = std::uint64_t{1} << 20;  // 1 TiB: no product below overflows
  constexpr std::uint64_t kMaxMs = 3'600'000;
  Options o;
  opterr = 0;
  for (int id = 0; (id = getopt_long(argc, argv, ":", kLongOptions, nullptr)) != -1;) {
    switch (id) {
      case kVramMib:
        o.vram_bytes = number("vram-mib", kMaxMib) << 20;
        break;
      case kBos:
        o.buffer_count = number("bos", 100'000);
        break;
      case kBoKib:
        o.buffer_bytes = number("bo-kib", kMaxMib) << 10;
        break;
      case kHostMib:
        o.host_bytes = number("host-mib", kMaxMib) << 20;
        break;
      case kSeed:
        o.seed = number("seed", std::numeric_limits<std::uint64_t>::max());
        break;
      case kPendingBarrier:
        o.pending_barrier = true;
        break;
      case kEventsWaiter:
        o.events_waiter = true;
        break;
      case kDmabuf:
        o.dmabuf = true;
        break;
      case kGem:
        o.gem = true;
        break;
      case kDoubleRender:
        o.double_render = true;
        break;
      case kForkHolder:
        o.fork_holder = true;
        break;
      case kDoubleKfd:
        o.double_kfd = true;
        break;
      case kSplit:
        o.split = true;
        break;
      case kStepMs:
        o.step_every = std::chrono::milliseconds(number("step-ms", kMaxMs));
        break;
      case kTimeoutMs:
        o.limit = std::chrono::milliseconds(number("timeout-ms", kMaxMs));
        break;
      case kControl:
        o.control_dir = optarg;
        break;
      case kStatus:
        o.status_file = optarg;
        break;
      case kHelp:
        std::fputs(usage(), stdout);
        std::exit(0);
      case ':':
        throw std::invalid_argument(std::string(argv[optind - 1]) + ": needs a value");
      default:
        throw std::invalid_argument(std::string(argv[optind - 1]) + ": unknown option");
    }
  }
  if (optind < argc) throw std::invalid_argument(std::string(argv[optind]) + ": unexpected");
  if (o.buffer_bytes == 0 || o.buffer_bytes % 4096 != 0) {
    throw std::invalid_argument("--bo-kib: it must be a multiple of 4 above 0");
  }
  if (o.dmabuf && o.vram_bytes == 0 && o.buffer_count == 0) {
    throw std::invalid_argument("--dmabuf: needs --vram-mib or --bos");
  }
  if (o.status_file.empty()) o.status_file = o.control_dir + "/status";
  return o;
}

}  // namespace lab
