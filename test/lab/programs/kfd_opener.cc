// A program that opened /dev/kfd and never used it: no GPU address space, no queues.
// usage: kfd-opener [CONTROL_DIR [STATUS_FILE]] (/ctl, CONTROL_DIR/status); commands: verify,
// status, exit.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "core/os/error.h"
#include "kfd.h"
#include "mailbox.h"
#include "stop.h"

int main(int argc, char** argv) {
  if (argc > 3 || (argc > 1 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: kfd-opener [CONTROL_DIR [STATUS_FILE]]\n");
    return 2;
  }
  try {
    lab::install_stop_handlers();
    const std::string dir = argc > 1 ? argv[1] : "/ctl";
    const lab::Mailbox mailbox(dir, argc > 2 ? argv[2] : dir + "/status");
    const kfdcp::UniqueFd kfd = lab::open_kfd();
    mailbox.announce("ready pid=" + std::to_string(getpid()) + " holds=kfd-opener");
    lab::serve(
        mailbox,
        [&](const lab::Command& command) -> std::string {
          if (command.verb == "exit") return "exiting";
          if (command.verb == "status") return "running";
          if (command.verb == "verify") return "verified kfd=" + lab::kfd_version(kfd.get());
          throw kfdcp::Error(kfdcp::ErrorCode::protocol,
                             "command \"" + command.verb + "\": use verify, status or exit");
        },
        [](std::chrono::milliseconds) {});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kfd-opener: %s\n", error.what());
    return 1;
  }
  return 0;
}
