#include "criu-plugin/dump.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/kfd/kfd.h"
#include "core/os/error.h"
#include "core/os/procfs.h"
#include "core/os/stage.h"
#include "core/survey/survey.h"
#include "core/wire/contents_link.h"
#include "core/wire/image_files.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
#include "criu-plugin/abi.h"
#include "criu-plugin/action_script.h"
#include "criu-plugin/dump_process.h"
#include "criu-plugin/hold.h"
#include "criu-plugin/log.h"
#include "criu-plugin/name.h"

namespace kfdcp::criu {

namespace {

// Answer to dump_end.
constexpr std::uint64_t kStayPaused = 1;

struct DumpState {
  UniqueFd session;
  bool session_lost = false;  // given up: it is not waited for a second time
  std::vector<GpuProcess> processes;
  std::vector<HeldDmabuf> dmabufs;
  std::vector<int> paused;  // KFD descriptors, owned by `processes`
  bool draining = false;
};

std::unique_ptr<DumpState> dump;
bool begun = false;
bool surveyed = false;
bool session_started = false;

/// A look that fails is no reason to stop a dump: the survey of the stopped tree comes later.
bool seems_to_use_gpu(int root_pid) noexcept {
  try {
    return holds_gpu(root_pid);
  } catch (const std::exception& error) {
    log_info("cannot look for GPUs: " + describe(error));
    return false;
  }
}

/// The session's answer. Throws when it does not come. What a session that is gone had written is
/// removed then: nobody else would until the next checkpoint into the same directory.
Message ask(DumpState& state, MessageType type, const std::array<std::uint64_t, 4>& args) {
  try {
    send_message(state.session.get(), type, args, "", {});
    return expect_answer(state.session.get(), kSilenceMs);
  } catch (const Error& error) {
    state.session_lost = true;
    const UniqueFd contents = open_contents(::getpid());
    const LostSession lost = give_up_session(::getpid(), error);
    if (lost.gone) {
      const std::size_t removed = remove_unsealed_files(image_directory(), contents.get());
      if (removed > 0) log_info("removed " + std::to_string(removed) + " unsealed file(s)");
    }
    throw Error(error.code, lost.why, error.err);
  }
}

void refuse(DumpState& state, const std::vector<std::string>& reasons) {
  std::string all;
  for (const std::string& reason : reasons) {
    log_error(reason);
    all += (all.empty() ? "" : "; ") + reason;
  }
  const Error refused(ErrorCode::unsupported, "this container cannot be saved: " + all);
  if (state.session) send_failure(state.session.get(), MessageType::dump_refused, 0, refused);
  throw refused;
}

/// What the session knows against the processes: it has the table of kernels.
std::vector<std::string> reasons_of_session(DumpState& state) {
  std::vector<std::string> reasons;
  for (const GpuProcess& process : state.processes) {
    if (process.kfd_files.empty()) continue;
    const Message answer =
        ask(state, MessageType::dump_surveyed, {static_cast<std::uint64_t>(process.pid)});
    if (answer.type != MessageType::ok) throw Error(ErrorCode::protocol, answer.text);
    if (answer.text.empty()) continue;
    reasons.push_back("pid " + std::to_string(process.pid) + " (" + procfs::comm(process.pid) +
                      "): " + answer.text);
  }
  return reasons;
}

/// Reports a failed survey to the session, if one was started: its log should have the reason.
Survey survey_or_report(int root_pid) {
  try {
    return survey_tree(root_pid);
  } catch (const std::exception& error) {
    try {
      const UniqueFd session = connect_socket(session_socket(::getpid()));
      send_failure(session.get(), MessageType::dump_refused, 0, error);
    } catch (const Error&) {
      // No process was paused: a tree without a GPU.
    }
    throw;
  }
}

/// A session that was killed before it was connected to.
void clear_dead_session() noexcept {
  try {
    remove_dead_session(::getpid());
  } catch (const std::exception& error) {
    log_error(describe(error));
  }
}

void report_end(bool stays_paused) noexcept {
  log_info(stays_paused ? "the GPU stays paused" : "the GPU runs again");
  if (stays_paused) return;
  try {
    if (dump->session_lost) {
      send_message(dump->session.get(), MessageType::dump_unpaused, {}, "", {});
    } else {
      ask(*dump, MessageType::dump_unpaused, {});
    }
  } catch (const std::exception&) {
    // The session has ended, or asks the kernel itself.
  }
}

/// Sends the session the file of CRIU's `id`; false when it is none of the known files.
bool announce_file(int fd, int id) {
  const auto send = [&](FileKind kind, std::uint64_t what, std::uint32_t number) {
    send_message(dump->session.get(), MessageType::dump_file,
                 {static_cast<std::uint64_t>(id), static_cast<std::uint64_t>(kind), what, number},
                 "", {});
    return true;
  };
  // CRIU also asks for a file inside a socket's queue, which no process holds.
  if (const auto inode = procfs::dmabuf_inode(fd)) return send(FileKind::dmabuf, *inode, 0);
  for (std::size_t i = 0; i < dump->processes.size(); ++i) {
    const GpuProcess& process = dump->processes[i];
    for (const UniqueFd& file : process.kfd_files) {
      if (procfs::same_file(file.get(), fd)) return send(FileKind::kfd, i, 0);
    }
    for (const auto& render : process.render_files) {
      if (procfs::same_file(render.file.get(), fd)) {
        return send(FileKind::render, i, render.held.state.ordinal);
      }
    }
  }
  return false;
}

}  // namespace

void begin_dump(int root_pid) {
  if (std::exchange(begun, true) || !seems_to_use_gpu(root_pid)) return;
  add_action_script();
  stage("plugin-dump", "looked");
  session_started = true;
  run_pre_dump_script();
}

void checkpoint_tree(int root_pid) {
  if (std::exchange(surveyed, true)) return;
  Survey survey = survey_or_report(root_pid);
  if (survey.processes.empty() && survey.refusals.empty()) return;

  dump = std::make_unique<DumpState>();
  dump->processes = std::move(survey.processes);
  dump->dmabufs = std::move(survey.dmabufs);
  try {
    dump->session = connect_socket(session_socket(::getpid()));
  } catch (const Error& error) {
    survey.refusals.insert(
        survey.refusals.begin(),
        std::string("the container uses a GPU, but no session was started for "
                    "this checkpoint (did it open the GPU just now? try again): ") +
            error.what());
  }
  if (dump->session) {
    for (std::string& reason : reasons_of_session(*dump)) {
      survey.refusals.push_back(std::move(reason));
    }
  }
  if (!survey.refusals.empty()) refuse(*dump, survey.refusals);
  register_in_inventory(kPluginName);
  const bool holds = prepare_hold();
  stage("plugin-dump", "surveyed");

  try {
    pause_and_send(dump->session.get(), dump->processes, dump->dmabufs, dump->paused);
  } catch (const std::exception& error) {
    // finish_dump() undoes the pauses. The session's log gets the reason, too.
    send_failure(dump->session.get(), MessageType::dump_refused, 0, error);
    throw;
  }
  stage("plugin-dump", "states-sent");
  const std::uint64_t continues = holds && final_task_state() == kTasksStayAlive ? 1 : 0;
  const Message answer = ask(*dump, MessageType::dump_begin, {dump->processes.size(), continues});
  if (answer.type != MessageType::ok) {
    throw Error(ErrorCode::protocol, answer.text.empty() ? "the session refused" : answer.text);
  }
  dump->draining = true;
  stage("plugin-dump", "begun");
  log_info("paused " + std::to_string(dump->paused.size()) + " of " +
           std::to_string(dump->processes.size()) +
           " GPU process(es), draining; session log: " + answer.text);
}

bool dump_file(int fd, int id) {
  if (!dump) return false;
  try {
    return announce_file(fd, id);
  } catch (const std::exception& error) {
    send_failure(dump->session.get(), MessageType::dump_refused, 0, error);
    throw;
  }
}

void finish_dump(int result) noexcept {
  const bool started = std::exchange(session_started, false);
  begun = surveyed = false;
  if (started && (!dump || !dump->session)) clear_dead_session();
  if (!dump) return;
  bool stay_paused = false;
  const bool known = dump->draining || !dump->paused.empty();
  const int state = final_task_state();
  stage("plugin-dump", "ending");
  try {
    if (dump->session && !dump->session_lost && known) {
      const Message answer =
          ask(*dump, MessageType::dump_end,
              {static_cast<std::uint64_t>(result), static_cast<std::uint64_t>(state)});
      // A tree that will be killed must not run on: its shared memory is archived later.
      const bool saved = answer.type == MessageType::ok && result == 0 && state != -1;
      stay_paused = saved && answer.args[0] == kStayPaused && state != kTasksStayAlive;
    }
  } catch (const std::exception& error) {
    log_error(describe(error));
  }
  stage("plugin-dump", "ended");
  for (const int kfd_fd : dump->paused) {
    if (stay_paused) break;
    try {
      kfd::unpause(kfd_fd);
    } catch (const std::exception& error) {
      log_error(describe(error));
    }
  }
  if (!dump->paused.empty()) report_end(stay_paused);
  stage("plugin-dump", "over");
  if (known) {
    hold_answer(std::move(dump->session), dump->session_lost, state == kTasksDie);
  }
  dump.reset();
}

}  // namespace kfdcp::criu
