#include "criu-plugin/dump.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/image_files.h"
#include "core/kfd.h"
#include "core/kfd_maps.h"
#include "core/procfs.h"
#include "core/session_socket.h"
#include "core/survey.h"
#include "core/wire.h"
#include "criu-plugin/abi.h"
#include "criu-plugin/action_script.h"
#include "criu-plugin/log.h"
#include "criu-plugin/name.h"

namespace kfdcp::criu {

namespace {

// The session only has to open files and start a thread before it answers.
constexpr int kAnswerTimeoutMs = 60'000;

struct DumpState {
  UniqueFd session;
  bool session_lost = false;  // given up: it is not waited for a second time
  std::vector<GpuProcess> processes;
  std::vector<int> paused;  // KFD descriptors, owned by `processes`
};

std::unique_ptr<DumpState> dump;
bool begun = false;

/// A look that fails is no reason to stop a dump: the survey of the stopped tree comes later.
bool seems_to_use_gpu(int root_pid) noexcept {
  try {
    return procfs::kfd_major() >= 0 && holds_gpu(root_pid);
  } catch (const std::exception& error) {
    log_info(std::string("cannot look for GPUs: ") + error.what());
    return false;
  }
}

/// The session's answer. Throws when it does not come. What a session that is gone had written is
/// removed then: nobody else would until the next checkpoint into the same directory.
Message ask(DumpState& state, MessageType type, const std::array<std::uint64_t, 4>& args) {
  try {
    send_message(state.session.get(), type, args, "", {});
    return expect_message(state.session.get(), kAnswerTimeoutMs);
  } catch (const Error& error) {
    state.session_lost = true;
    const LostSession lost = give_up_session(::getpid(), error);
    if (lost.gone) {
      const std::size_t removed = remove_unsealed_files(image_directory());
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
  if (state.session) send_message(state.session.get(), MessageType::dump_refused, {}, all, {});
  throw Error(ErrorCode::unsupported, "this container cannot be saved: " + all);
}

/// One PROCESS_INFO per KFD process, whatever the number of its files: on kernels up to 6.12 a
/// second one would evict the queues for ever. UNPAUSE tells whether a further file belongs to a
/// process that is paused already; if so its pause is taken again.
kfd::ProcessInfo pause(DumpState& state, const GpuProcess& process, std::size_t ordinal) {
  // The session can undo the pause if this process dies: it must know before there is one.
  send_message(state.session.get(), MessageType::dump_pause,
               {ordinal, static_cast<std::uint64_t>(process.pid)}, procfs::comm(process.pid),
               {process.kfd_files.front().get(), process.pidfd.get()});
  kfd::ProcessInfo info = kfd::process_info(process.kfd_files.front().get());
  state.paused.push_back(process.kfd_files.front().get());
  if (const std::uint32_t expected = procfs::ns_pid(process.pid); info.ns_pid != expected) {
    throw Error(ErrorCode::unsupported,
                "/dev/kfd of pid " + std::to_string(process.pid) + " belongs to another process");
  }
  for (std::size_t i = 1; i < process.kfd_files.size(); ++i) {
    if (!kfd::unpause(process.kfd_files[i].get())) {
      throw Error(ErrorCode::unsupported, "pid " + std::to_string(process.pid) +
                                              " holds /dev/kfd files of two KFD processes");
    }
    info = kfd::process_info(process.kfd_files[i].get());
  }
  return info;
}

[[noreturn]] void cannot_be_restored(const GpuProcess& process, const std::string& what) {
  throw Error(ErrorCode::unsupported, "pid " + std::to_string(process.pid) + " (" +
                                          procfs::comm(process.pid) + ") maps " + what +
                                          ": such a mapping cannot be restored");
}

/// The gpu_id that the BO buckets have for the GPU with render node `minor`.
std::uint32_t user_gpu_id(const GpuProcess& process, const ProcessState& state,
                          std::uint32_t minor) {
  static const std::map<std::uint32_t, std::uint32_t> gpus = procfs::gpus_by_minor();
  if (const auto gpu = gpus.find(minor); gpu != gpus.end()) {
    const auto device =
        std::ranges::find(state.devices, gpu->second, &kfd_criu_device_bucket::actual_gpu_id);
    if (device != state.devices.end()) return device->user_gpu_id;
  }
  cannot_be_restored(process, "renderD" + std::to_string(minor) + ", no GPU of its KFD state");
}

/// DRM maps a buffer from its start only (drm_gem_mmap looks the offset up exactly), and CRIU maps
/// every piece by itself: a piece from the middle of a buffer could never come back.
std::vector<VmaRecord> mappings(const GpuProcess& process, const ProcessState& state) {
  std::vector<VmaRecord> records;
  for (auto& [vma, minor] : procfs::device_vmas(process.pid, procfs::kfd_major())) {
    records.push_back(vma);
    if (vma.kind == VmaRecord::kfd) {
      if (kfd_buffer_of(state, vma) != nullptr) continue;
      cannot_be_restored(process, "/dev/kfd beside its buffers (as libhsakmt does for old APUs)");
    }
    const std::uint32_t gpu_id = user_gpu_id(process, state, minor);
    records.back().gpu_id = gpu_id;
    const auto starts_at = [&](const kfd_criu_bo_bucket& bo) {
      return bo.gpu_id == gpu_id && bo.offset == vma.pgoff;
    };
    if (std::ranges::any_of(state.bos, starts_at)) continue;
    cannot_be_restored(process, "a GPU buffer in pieces (mprotect or munmap of a part of it)");
  }
  return records;
}

void send_process(DumpState& state, const GpuProcess& process, std::uint32_t ordinal,
                  const kfd::ProcessInfo& info) {
  kfd::Checkpoint saved = kfd::checkpoint(process.kfd_files.front().get(), info);
  saved.state.ordinal = ordinal;
  saved.state.vmas = mappings(process, saved.state);
  const std::vector<std::byte> bytes = encode_state(saved.state);
  const UniqueFd memfd = make_memfd("kfd-state", bytes.data(), bytes.size());
  const int socket = state.session.get();
  send_message(socket, MessageType::dump_state, {ordinal}, "", {memfd.get()});
  // The copies here are closed on return: the session's keep the inodes from being reused.
  send_buffers(socket, MessageType::dump_buffers, ordinal, saved.dmabufs);
}

void pause_and_read(DumpState& state) {
  // Queues of one process can write the buffers of another: all are paused before any is read.
  std::vector<kfd::ProcessInfo> infos;
  for (const GpuProcess& process : state.processes) {
    infos.push_back(pause(state, process, infos.size()));
  }
  for (std::size_t i = 0; i < infos.size(); ++i) {
    send_process(state, state.processes[i], static_cast<std::uint32_t>(i), infos[i]);
  }
}

void report_end(bool stays_paused) noexcept {
  log_info(stays_paused ? "the GPU stays paused" : "the GPU goes on");
  if (stays_paused) return;
  try {
    if (dump->session_lost) {
      send_message(dump->session.get(), MessageType::dump_unpaused, {}, "", {});
    } else {
      ask(*dump, MessageType::dump_unpaused, {});
    }
  } catch (const std::exception&) {
    // The session is gone or will find out by asking the kernel itself.
  }
}

}  // namespace

void begin_dump(int root_pid) {
  if (std::exchange(begun, true) || !seems_to_use_gpu(root_pid)) return;
  add_action_script();
  run_pre_dump_script();
}

void checkpoint_tree(int root_pid) {
  if (dump) return;
  Survey survey = survey_tree(root_pid);
  if (survey.processes.empty() && survey.refusals.empty()) return;

  dump = std::make_unique<DumpState>();
  dump->processes = std::move(survey.processes);
  try {
    dump->session = connect_socket(session_socket(::getpid()));
  } catch (const Error& error) {
    survey.refusals.insert(
        survey.refusals.begin(),
        std::string("the container uses a GPU, but no session was started for "
                    "this checkpoint (did it open the GPU just now? try again): ") +
            error.what());
  }
  if (!survey.refusals.empty()) refuse(*dump, survey.refusals);
  register_in_inventory(kPluginName);

  try {
    pause_and_read(*dump);
  } catch (const Error& error) {
    // finish_dump() undoes the pauses; the session's log should have the reason, too.
    send_message(dump->session.get(), MessageType::dump_refused, {}, error.what(), {});
    throw;
  }
  const Message answer = ask(*dump, MessageType::dump_begin, {dump->processes.size()});
  if (answer.type != MessageType::ok) {
    throw Error(ErrorCode::protocol, answer.text.empty() ? "the session refused" : answer.text);
  }
  log_info("paused " + std::to_string(dump->processes.size()) +
           " GPU process(es), draining; session log: " + answer.text);
}

bool dump_file(int fd, int id) {
  if (!dump) return false;
  const auto send = [&](FileKind kind, std::size_t ordinal, std::uint32_t minor) {
    send_message(dump->session.get(), MessageType::dump_file,
                 {static_cast<std::uint64_t>(id), static_cast<std::uint64_t>(kind), ordinal, minor},
                 "", {});
    return true;
  };
  for (std::size_t i = 0; i < dump->processes.size(); ++i) {
    const GpuProcess& process = dump->processes[i];
    for (const UniqueFd& file : process.kfd_files) {
      if (procfs::same_file(file.get(), fd)) return send(FileKind::kfd, i, 0);
    }
    for (const auto& [file, minor] : process.render_files) {
      if (procfs::same_file(file.get(), fd)) return send(FileKind::render, i, minor);
    }
  }
  return false;
}

void finish_dump(int result) noexcept {
  if (!dump) return;
  bool stay_paused = false;
  const int state = final_task_state();
  try {
    if (dump->session && !dump->session_lost && !dump->paused.empty()) {
      const Message answer =
          ask(*dump, MessageType::dump_end,
              {static_cast<std::uint64_t>(result), static_cast<std::uint64_t>(state)});
      // A tree that is about to be killed must not compute on: its shared memory is archived later.
      stay_paused = answer.type == MessageType::ok && answer.args[0] == 1 && result == 0 &&
                    state != -1 && state != kTasksStayAlive;
    }
  } catch (const std::exception& error) {
    log_error(error.what());
  }
  for (const int kfd_fd : dump->paused) {
    if (stay_paused) break;
    try {
      kfd::unpause(kfd_fd);
    } catch (const std::exception& error) {
      log_error(error.what());
    }
  }
  if (!dump->paused.empty()) report_end(stay_paused);
  dump.reset();
}

}  // namespace kfdcp::criu
