// Lines in CRIU's own dump.log and restore.log.
#pragma once

#include <string>

namespace kfdcp::criu {

void log_info(const std::string& text);
/// Starts with "Error ", which crun 1.27 and newer shows to the user.
void log_error(const std::string& text);

}  // namespace kfdcp::criu
