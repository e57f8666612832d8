#include "selftest/wait.h"

#include <csignal>
#include <thread>

#include "core/os/error.h"

namespace kfdcp::selftest {
namespace {

volatile std::sig_atomic_t stopping = 0;

}  // namespace

void wait_until(const std::string& what, const std::function<bool()>& done,
                std::chrono::milliseconds limit) {
  // Counted in slices, not by a clock.
  constexpr std::chrono::milliseconds kSlice{1};
  for (std::chrono::milliseconds waited{0}; !done(); waited += kSlice) {
    if (stop_requested()) throw Error(ErrorCode::cancelled, what + ": asked to stop");
    if (waited >= limit) {
      throw Error(ErrorCode::gpu,
                  what + ": no answer from the GPU in " + std::to_string(limit.count()) + " ms");
    }
    std::this_thread::sleep_for(kSlice);
  }
}

void install_stop_handlers() {
  struct sigaction action {};
  action.sa_handler = [](int) { stopping = 1; };
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

bool stop_requested() { return stopping != 0; }

}  // namespace kfdcp::selftest
