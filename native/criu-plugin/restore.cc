#include "criu-plugin/restore.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/kfd/kfd.h"
#include "core/kfd/state_file.h"
#include "core/os/error.h"
#include "core/os/stage.h"
#include "core/wire/held_answer.h"
#include "core/wire/image_files.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
#include "criu-plugin/abi.h"
#include "criu-plugin/action_script.h"
#include "criu-plugin/log.h"
#include "criu-plugin/request.h"
#include "criu-plugin/restore_render.h"
#include "criu-plugin/restore_vma.h"
#include "criu-plugin/sharing.h"
#include "criu-plugin/task_session.h"

namespace kfdcp::criu {

namespace {

// The tasks run already, and the container engine waits for CRIU's answer.
constexpr int kEndTimeoutMs = 5'000;

int criu_pid = -1;
bool expects_session = false;
/// On which the OCI runtime waits; a CRIU that was started from a shell has none.
std::optional<AskerSocket> asker;

bool image_has(const char* name) { return ::faccessat(image_directory(), name, F_OK, 0) == 0; }
bool image_has_gpu_state() { return image_has(kManifestName); }

/// The state in an answer. It must be the state of this task.
ProcessState state_of_this_task(const Message& answer) {
  ProcessState state = decode_state(read_memfd(answer.fds[0].get(), kMaxStateBytes));
  if (state.ns_pid == static_cast<std::uint32_t>(::getpid())) return state;
  throw Error(ErrorCode::unsupported, "the GPU state of pid " + std::to_string(state.ns_pid) +
                                          " was asked for in pid " + std::to_string(::getpid()));
}

/// The rest of a restore after KFD's BOs are restored: `dmabufs` belong to its own BOs, `shared` to
/// others.
void restore_rest(int socket, ProcessState state, const Dmabufs& dmabufs, const Dmabufs& shared) {
  const std::uint32_t ordinal = state.ordinal;
  std::vector<RenderOffset> offsets = restore_render_files(socket, state, dmabufs, shared);
  const Message known = request(socket, MessageType::restored, {ordinal, 1});
  stage("plugin-restore", "restored");
  expect_mappings(criu_pid, std::move(state), std::move(offsets));
  log_info("restored the GPU state of process " + std::to_string(ordinal) +
           "; session log: " + known.text);
}

UniqueFd restore_kfd(int socket, Message& answer) {
  const auto ordinal = static_cast<std::uint32_t>(answer.args[1]);
  if (answer.fds.empty()) {  // the process had nothing of KFD's
    UniqueFd kfd = open_kfd();
    request(socket, MessageType::restored, {ordinal, 0});
    return kfd;
  }
  if (const auto restored = restored_ordinal()) {
    if (*restored == ordinal) return open_kfd();  // a further file of the same process
    throw Error(ErrorCode::unsupported, "one task was asked to restore two KFD processes");
  }
  ProcessState state = state_of_this_task(answer);
  std::vector<UniqueFd> render;
  std::vector<int> drm_fds;
  for (const kfd_criu_device_bucket& device : state.devices) {
    render.push_back(render_file(socket, ordinal, device.user_gpu_id, 0));
    drm_fds.push_back(render.back().get());
  }

  UniqueFd kfd = open_kfd();
  stage("plugin-restore", "restoring");
  const Dmabufs dmabufs = kfd::restore(kfd.get(), state, drm_fds);
  stage("plugin-restore", "made");
  kfd::age_events(kfd.get());
  send_buffers(socket, MessageType::restore_buffers, ordinal, dmabufs);
  const Dmabufs shared = import_shared(socket, kfd.get(), ordinal, state);
  restore_rest(socket, std::move(state), dmabufs, shared);
  return kfd;
}

/// A render file of a process without KFD, whose files all come back with the first.
UniqueFd restore_drm(int socket, Message& answer) {
  if (!restored_ordinal()) {
    if (answer.fds.empty()) throw Error(ErrorCode::protocol, "the session sent no state");
    restore_rest(socket, state_of_this_task(answer), {}, {});
  }
  return render_file(socket, answer.args[1], answer.args[2], answer.args[3]);
}

/// A dma-buf, whoever owns its buffer. This task may have to make its own buffers first: CRIU opens
/// files in the order of their descriptors, and the other processes may be waiting for them.
UniqueFd restore_dmabuf(int id, Message& answer) {
  if (!answer.fds.empty()) return std::move(answer.fds[0]);
  if (restored_ordinal()) throw Error(ErrorCode::protocol, "the session has no dma-buf");
  // CRIU gets another open file when it asks for this one. The restored file belongs to the
  // process.
  const UniqueFd first(restore_file(static_cast<int>(answer.args[1])));
  return UniqueFd(restore_file(id));
}

}  // namespace

void begin_restore() {
  criu_pid = ::getpid();
  // An unfinished image counts, too: the session reports what is wrong with it.
  if (!image_has_gpu_state() && !image_has("kfd-state-0.img")) return;
  add_action_script();
  asker = AskerSocket::find(::getppid());
  expects_session = true;
  stage("plugin-restore", "begun");
}

void end_restore(int result) noexcept {
  if (!expects_session) return;
  stage("plugin-restore", "ending");
  if (result == 0 && asker && asker->is_hung_up()) {
    // For the engine this restore has failed, and another one may follow.
    log_error("the program that asked for this restore has ended: its tasks are ended");
    result = -ECANCELED;
  }
  try {
    const UniqueFd session = connect_socket(session_socket(criu_pid));
    send_message(session.get(), MessageType::restore_end, {static_cast<std::uint64_t>(result)}, "",
                 {});
    expect_message(session.get(), kEndTimeoutMs);
  } catch (const std::exception&) {
    // The session has refused this restore, or has died.
  }
  try {
    remove_dead_session(criu_pid);
  } catch (const std::exception& error) {
    log_error(describe(error));
  }
}

int restore_file(int id) {
  if (!image_has_gpu_state()) return -ENOTSUP;
  const UniqueFd session = connect_session(criu_pid);
  const auto pid = static_cast<std::uint64_t>(::getpid());
  stage("plugin-restore", "asking");
  Message answer =
      request(session.get(), MessageType::open_file, {static_cast<std::uint64_t>(id), pid});
  try {
    switch (static_cast<FileKind>(answer.args[0])) {
      case FileKind::none:
        return -ENOTSUP;
      case FileKind::render:
        return render_file(session.get(), answer.args[1], answer.args[2], answer.args[3]).release();
      case FileKind::drm:
        return restore_drm(session.get(), answer).release();
      case FileKind::kfd:
        return restore_kfd(session.get(), answer).release();
      case FileKind::dmabuf:
        return restore_dmabuf(id, answer).release();
    }
    throw Error(ErrorCode::protocol, "the session named an unknown kind of file");
  } catch (const std::exception& error) {
    send_failure(session.get(), MessageType::restore_failed, answer.args[1], error);
    throw;
  }
}

}  // namespace kfdcp::criu
