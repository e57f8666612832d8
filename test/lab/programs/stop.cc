#include "stop.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "core/os/error.h"

namespace lab {
namespace {

constexpr unsigned kWatchdogSeconds = 60;

std::atomic<bool> stopping{false};
std::atomic<const char*> watched{nullptr};
static_assert(std::atomic<const char*>::is_always_lock_free);

void on_stop(int) { stopping = true; }

void on_alarm(int) {
  const char* what = watched;
  constexpr char kText[] = ": did not return within 60 s\n";
  if (write(STDERR_FILENO, what, std::strlen(what)) >= 0) {
    [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kText, sizeof kText - 1);
  }
  _exit(3);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  if (sigaction(number, &action, nullptr) != 0) throw kfdcp::io_error("sigaction");
}

}  // namespace

void install_stop_handlers() {
  handle(SIGTERM, on_stop);
  handle(SIGINT, on_stop);
  handle(SIGALRM, on_alarm);
  handle(SIGPIPE, SIG_IGN);
}

bool stop_requested() { return stopping; }

void throw_if_stopping(const std::string& what) {
  if (stopping) throw kfdcp::Error(kfdcp::ErrorCode::cancelled, what + ": asked to stop");
}

Watchdog::Watchdog(const char* what) {
  watched = what;
  alarm(kWatchdogSeconds);
}

Watchdog::~Watchdog() { alarm(0); }

}  // namespace lab
