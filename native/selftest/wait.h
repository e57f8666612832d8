// Waiting for the GPU, and being asked to stop.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace kfdcp::selftest {

/// Longest wait for the GPU, of time in which this process really ran.
inline constexpr std::chrono::milliseconds kPatience{60'000};

/// Sleeps until `done` is true. A checkpoint stops the process for any length of time, which does
/// not count. Throws Error{gpu} "<what>: ..." after `limit`, Error{cancelled} when asked to stop.
void wait_until(const std::string& what, const std::function<bool()>& done,
                std::chrono::milliseconds limit = kPatience);

/// Makes SIGTERM and SIGINT end the program at its next wait. A handler is needed even for the
/// default action: pid 1 of a container ignores signals without one.
void install_stop_handlers();
bool stop_requested();

}  // namespace kfdcp::selftest
