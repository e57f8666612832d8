#include "core/wire/contents_link.h"

#include <fcntl.h>

#include <exception>

#include "core/wire/session_socket.h"

namespace kfdcp {

std::string contents_link(int criu_pid) { return session_directory(criu_pid) + "/contents"; }

UniqueFd open_contents(int criu_pid) noexcept {
  try {
    return UniqueFd(::open(contents_link(criu_pid).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace kfdcp
