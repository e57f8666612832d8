#include "criu-plugin/hold.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "core/os/error.h"
#include "core/os/stage.h"
#include "core/wire/contents_link.h"
#include "core/wire/held_answer.h"
#include "core/wire/image_files.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
#include "criu-plugin/abi.h"
#include "criu-plugin/log.h"

namespace kfdcp::criu {

namespace {

struct Hold {
  pid_t holder = -1;
  std::optional<HeldAnswer> answer;
  UniqueFd image;     // CRIU closes its own before it exits
  UniqueFd contents;  // of pages files that are not there
  UniqueFd session;
  bool active = false;
  bool lost = false;
  bool dies = false;
};

// Never destroyed: the order of destructors and exit handlers is not defined here.
Hold* hold = nullptr;

/// After the end of the session: a manifest is written last, so it says that all is there.
bool image_without_session(bool success) {
  const int image = hold->image.get();
  if (success && has_manifest(image)) {
    log_info("the session is gone, its image is sealed");
    return true;
  }
  const int contents = hold->contents.get();
  const std::size_t removed =
      success ? remove_unsealed_files(image, contents) : remove_image_files(image, contents);
  if (removed > 0) log_info("removed " + std::to_string(removed) + " file(s) of this checkpoint");
  return false;
}

bool ask_session(int status) {
  stage("plugin-dump", "sealing");
  send_message(hold->session.get(), MessageType::dump_result, {static_cast<std::uint64_t>(status)},
               "", {});
  const Message answer = expect_answer(hold->session.get(), kSilenceMs);
  stage("plugin-dump", "sealed");
  if (answer.type == MessageType::ok) return true;
  if (status == 0) log_error("the container runs, but its image is not complete: " + answer.text);
  return false;
}

/// Whether the image can be restored. A session that is slow decides like this when it continues.
bool image_is_there(int status) {
  const bool success = status == 0;
  const bool stays = success && hold->dies && has_manifest(hold->image.get());
  if (hold->lost) {
    return remove_dead_session(hold->holder) ? image_without_session(success) : stays;
  }
  try {
    return ask_session(status);
  } catch (const Error& error) {
    const LostSession lost = give_up_session(hold->holder, error);
    if (lost.gone) {
      const bool sealed = image_without_session(success);
      if (success && !sealed) {
        log_error("the container runs, but its image is not complete: " + lost.why);
      }
      return sealed;
    }
    log_error(lost.why);
    return stays;
  }
}

/// The tree runs, and nobody knows of an image that only gets older.
void remove_unheard_image() noexcept {
  try {
    remove_image_files(hold->image.get(), hold->contents.get());
    log_error("the program that asked for this checkpoint has ended: its image is removed");
  } catch (const std::exception& error) {
    log_error(describe(error));
  }
}

void at_exit(int status, void*) {
  if (hold == nullptr || !hold->active || ::getpid() != hold->holder) return;
  bool there = false;
  try {
    there = image_is_there(status);
  } catch (const std::exception& error) {
    log_error(describe(error));
  }
  if (status == 0 && !there) ::_exit(1);
  const bool heard = !hold->answer || hold->answer->give();
  if (heard || status != 0 || hold->dies) return;
  remove_unheard_image();
  ::_exit(1);
}

}  // namespace

bool prepare_hold() {
  hold = new Hold;
  hold->holder = ::getpid();
  hold->answer = HeldAnswer::find(::getppid());
  hold->image = UniqueFd(::fcntl(image_directory(), F_DUPFD_CLOEXEC, 3));
  if (!hold->image) throw io_error("image directory");
  if (::on_exit(at_exit, nullptr) != 0) throw Error(ErrorCode::io, "no exit handler", ENOMEM);
  return hold->answer.has_value() || !answers_by_rpc();
}

void hold_answer(UniqueFd session, bool lost, bool dies) noexcept {
  if (hold == nullptr) return;
  hold->contents = open_contents(hold->holder);
  hold->session = std::move(session);
  hold->lost = lost;
  hold->dies = dies;
  hold->active = true;
  try {
    if (hold->answer) hold->answer->hold();
  } catch (const std::exception& error) {
    log_error(describe(error));
  }
}

}  // namespace kfdcp::criu
