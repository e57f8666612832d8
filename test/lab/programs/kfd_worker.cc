// A GPU program for the tests that uses the kernel's own calls alone, so that it can hold what ROCr
// does not give, and knows the number of everything. usage: kfd-worker [--queues] [--events]
// [--exception] [--memory] [--svm] [--steps] [--ordered] [--control DIR] Commands in DIR/cmd
// (/ctl): verify, status, exit. See bare_held.h, long_steps.h and ordered.h.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bare_held.h"
#include "core/os/error.h"
#include "long_steps.h"
#include "mailbox.h"
#include "ordered.h"
#include "stop.h"

namespace lab {
namespace {

constexpr std::chrono::milliseconds kLimit{60'000};

class KfdWorker {
 public:
  explicit KfdWorker(const std::set<std::string>& wanted) {
    if (wanted.contains("--events")) held_.push_back(hold_events(gpu_, kLimit));
    if (wanted.contains("--exception")) held_.push_back(hold_exception(gpu_, kLimit));
    if (wanted.contains("--memory")) held_.push_back(hold_memory(gpu_, pattern_, kLimit));
    if (wanted.contains("--svm")) held_.push_back(hold_svm(gpu_, pattern_));
    if (wanted.contains("--steps")) steps_.emplace(gpu_, kLimit);
    if (wanted.contains("--ordered")) ordered_.emplace(gpu_, kLimit);
    // Last: others would take the numbers that it leaves free.
    if (wanted.contains("--queues")) held_.push_back(hold_backlogs(gpu_, kLimit));
  }

  std::string ready_line() const { return "ready pid=" + std::to_string(getpid()) + state(); }

  std::string answer(const Command& command) {
    if (command.verb == "exit") return "exiting" + state();
    if (command.verb == "status") return "running" + state();
    if (command.verb != "verify") {
      throw kfdcp::Error(kfdcp::ErrorCode::protocol,
                         "command \"" + command.verb + "\": use verify, status or exit");
    }
    for (const auto& holding : held_) holding->check();
    if (steps_) steps_->check();
    if (ordered_) ordered_->check();
    return "verified" + state();
  }

  void tick() {
    if (ordered_) ordered_->feed();
  }

 private:
  std::string state() const {
    std::string line;
    for (const auto& holding : held_) line += std::string(" holds=") + holding->name();
    if (steps_) line += " steps=" + steps_->progress();
    if (ordered_) line += " rounds=" + std::to_string(ordered_->rounds());
    return line;
  }

  BareGpu gpu_;
  const Pattern pattern_{1};
  std::vector<std::unique_ptr<Holding>> held_;
  std::optional<LongSteps> steps_;
  std::optional<Ordered> ordered_;
};

int usage() {
  std::fprintf(stderr,
               "usage: kfd-worker [--queues] [--events] [--exception] [--memory] [--svm] [--steps] "
               "[--ordered] "
               "[--control DIR]\n");
  return 2;
}

int run(const std::set<std::string>& wanted, const std::string& dir) {
  const Mailbox mailbox(dir, dir + "/status");
  try {
    install_stop_handlers();
    KfdWorker worker(wanted);
    mailbox.announce(worker.ready_line());
    serve(
        mailbox, [&](const Command& command) { return worker.answer(command); },
        [&](std::chrono::milliseconds) { worker.tick(); });
    return 0;
  } catch (const std::exception& error) {
    mailbox.announce(std::string("failed ") + error.what());
    std::fprintf(stderr, "kfd-worker: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace lab

int main(int argc, char** argv) {
  const std::set<std::string> known = {"--queues", "--events", "--exception", "--memory",
                                       "--svm",    "--steps",  "--ordered"};
  std::set<std::string> wanted;
  std::string dir = "/ctl";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--control" && i + 1 < argc) {
      dir = argv[++i];
    } else if (!known.contains(argument)) {
      return lab::usage();
    } else {
      wanted.insert(argument);
    }
  }
  return lab::run(wanted, dir);
}
