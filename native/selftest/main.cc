// kfd-checkpoint-selftest: a GPU program for `kfd-checkpoint selftest`. It needs nothing but the
// kernel, and holds what ROCr's programs hold: memory, queues, events. It goes on after a restore
// and can then say whether all is as it was. usage: kfd-checkpoint-selftest --folder DIR --render
// MINOR... [--mib N] [--share]. Orders in DIR/order: status, verify, exit.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "core/os/error.h"
#include "selftest/mailbox.h"
#include "selftest/program.h"
#include "selftest/wait.h"

namespace kfdcp::selftest {
namespace {

constexpr std::chrono::milliseconds kTick{1};
/// It ends by itself when nobody ends it: an hour of time in which it really ran.
constexpr long kMostTicks = 3'600'000;

std::string pid_member() { return "\"pid\":" + std::to_string(::getpid()); }

/// False when the order was to end.
bool obey(Program& program, const Mailbox& mailbox, const Mailbox::Order& order) {
  if (order.verb == "exit") {
    mailbox.answer(order.id, "exits", pid_member());
    return false;
  }
  try {
    if (order.verb == "verify") {
      program.verify();
      mailbox.answer(order.id, "verified", program.state());
    } else if (order.verb == "status") {
      mailbox.answer(order.id, "runs", program.state());
    } else {
      throw Error(ErrorCode::protocol, order.verb + ": no such order");
    }
  } catch (const Error& error) {
    mailbox.answer(order.id, "failed", "\"reason\":" + json_text(error.what()));
  }
  return true;
}

int run(const Options& options) {
  const Mailbox mailbox(options.folder);
  try {
    Program program(options, {});
    mailbox.answer("", "ready", pid_member() + "," + program.state());
    for (long ticks = 0; ticks < kMostTicks && !stop_requested() && mailbox.exists(); ++ticks) {
      const auto order = mailbox.take();
      if (order && !obey(program, mailbox, *order)) break;
      program.feed();
      std::this_thread::sleep_for(kTick);
    }
    return 0;
  } catch (const std::exception& error) {
    if (mailbox.exists()) {
      mailbox.answer("", "failed", "\"reason\":" + json_text(describe(error)));
    }
    std::fprintf(stderr, "kfd-checkpoint-selftest: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace kfdcp::selftest

int main(int argc, char** argv) {
  using namespace kfdcp::selftest;
  install_stop_handlers();
  try {
    return run(parse_options({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kfd-checkpoint-selftest: %s\n", error.what());
    return 2;
  }
}
