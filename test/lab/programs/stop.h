// How the process is asked to stop, and what happens when the runtime does not let it.
#pragma once

#include <string>

namespace lab {

/// Makes SIGTERM and SIGINT end the program at its next wait, and lets it outlive the reader of its
/// stdout. A handler is needed even for the default action: pid 1 of a container ignores signals
/// without one.
void install_stop_handlers();

/// True once SIGTERM or SIGINT came.
bool stop_requested();

/// Throws Error{cancelled} "<what>: asked to stop" once stop_requested().
void throw_if_stopping(const std::string& what);

/// Ends the process with exit code 3 and a message on stderr if it lives longer than 60 s: hsa_init
/// and hsa_shut_down have no time-out of their own. At most one at a time, main thread only.
class Watchdog {
 public:
  /// `what` must be a string literal.
  explicit Watchdog(const char* what);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
};

}  // namespace lab
