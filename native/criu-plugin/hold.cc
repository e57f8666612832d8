#include "criu-plugin/hold.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <utility>

#include "core/os/error.h"
#include "core/os/stage.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
#include "criu-plugin/log.h"

namespace kfdcp::criu {

namespace {

// Not closed by a destructor: the order of destructors and exit handlers is not defined here.
int socket_of_session = -1;
pid_t holder = -1;

/// A session that dies closes its end. One that writes to a slow disk takes its time.
void wait_for_answer() {
  pollfd poller{socket_of_session, POLLIN, 0};
  while (::poll(&poller, 1, -1) == -1) {
    if (errno != EINTR) throw io_error("session socket: wait for the image");
  }
}

void seal() {
  stage("plugin-dump", "sealing");
  send_message(socket_of_session, MessageType::dump_seal, {}, "", {});
  wait_for_answer();
  stage("plugin-dump", "sealed");
  constexpr int kIsThere = 0;
  const Message answer = expect_message(socket_of_session, kIsThere);
  if (answer.type != MessageType::ok) throw Error(ErrorCode::protocol, answer.text);
}

/// False, and in CRIU's log why, when there is no image.
bool wait_for_image() noexcept {
  try {
    seal();
    log_info("the image is sealed");
    return true;
  } catch (const Error& error) {
    const bool answered = error.code == ErrorCode::protocol;
    log_error("the container runs, but its image is not complete: " +
              (answered ? std::string(error.what()) : give_up_session(holder, error).why));
  } catch (const std::exception& error) {
    log_error(describe(error));
  }
  return false;
}

void at_exit() {
  if (::getpid() == holder && !wait_for_image()) ::_exit(1);
}

}  // namespace

void hold_exit(UniqueFd session) noexcept {
  socket_of_session = session.release();
  holder = ::getpid();
  if (std::atexit(at_exit) == 0) {
    log_info("the container runs; CRIU ends when its image is sealed");
  } else {
    wait_for_image();  // no memory for a handler: then the container waits, too
  }
}

}  // namespace kfdcp::criu
