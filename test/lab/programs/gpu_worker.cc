// A GPU program for the tests: see --help.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "mailbox.h"
#include "options.h"
#include "share.h"
#include "stop.h"
#include "worker.h"

int main(int argc, char** argv) {
  lab::Options options;
  try {
    options = lab::parse_options(argc, argv);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "gpu-worker: %s; see gpu-worker --help\n", error.what());
    return 2;
  }
  try {
    lab::install_stop_handlers();
    // Without it ROCr packs small allocations into BOs of 2 MiB, and --bos would not count BOs.
    if (options.buffer_count != 0) setenv("HSA_DISABLE_FRAGMENT_ALLOCATOR", "1", 1);
    const lab::Mailbox mailbox(options.control_dir, options.status_file);
    try {
      std::optional<lab::Peer> peer;
      const auto run = [&options](int socket, kfdcp::UniqueFd place) {
        return lab::run_sharer(socket, std::move(place), options);
      };
      // ROCr's IPC by dma-bufs; the other one needs a call that no kernel but AMD's own has.
      if (options.ipc) setenv("HSA_ENABLE_IPC_MODE_LEGACY", "0", 0);
      if (options.share) peer.emplace(run, options.limit);
      lab::Worker worker(options, peer ? &*peer : nullptr);
      mailbox.announce(worker.ready_line());
      lab::serve(
          mailbox, [&](const lab::Command& command) { return worker.answer(command); },
          [&](std::chrono::milliseconds passed) { worker.tick(passed); });
    } catch (const std::exception& error) {
      mailbox.announce(std::string("failed ") + error.what());
      throw;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu-worker: %s\n", error.what());
    return 1;
  }
  return 0;
}
