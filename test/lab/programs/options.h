// The command line of gpu-worker.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lab {

/// What one worker holds and does. Sizes are bytes.
struct Options {
  std::size_t vram_bytes = 0;    // one buffer of this size
  std::size_t buffer_count = 0;  // and this many
  std::size_t buffer_bytes = 64 * 1024;
  std::size_t host_bytes = 0;      // anonymous host memory
  std::size_t changing_bytes = 0;  // one more buffer, which compresses well
  std::size_t changes_bytes = 0;   // of it, with each step
  std::uint64_t seed = 1;
  bool compressible = false;
  std::size_t gpu = 0;       // which of those it sees
  std::size_t peer_gpu = 0;  // likewise, of the process it shares with
  bool pending_barrier = false;
  bool events_waiter = false;
  bool dmabuf = false;
  bool gem = false;
  bool double_render = false;
  bool fork_holder = false;
  bool double_kfd = false;
  bool other_gpu = false;
  bool split = false;
  bool map_dmabuf = false;
  bool io_uring = false;
  bool share = false;
  bool ipc = false;
  std::chrono::milliseconds dispatch{0};      // how long one takes on the GPU; 0: none
  std::chrono::milliseconds step_every{100};  // 0: the counter stands still
  std::chrono::milliseconds limit{60'000};    // for every wait for the GPU
  std::string control_dir = "/ctl";
  std::string status_file;  // default: "status" in control_dir
};

/// Reads argv. Throws std::invalid_argument "<option>: <reason>". `--help` prints the usage and
/// exits 0.
Options parse_options(int argc, char** argv);

/// The text of `--help`.
std::string_view usage();

}  // namespace lab
