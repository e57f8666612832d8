#include "criu-plugin/dump_process.h"

#include <optional>
#include <set>
#include <string>

#include "core/kfd/kfd.h"
#include "core/os/error.h"
#include "core/os/procfs.h"
#include "core/os/stage.h"
#include "core/survey/unacquired_vms.h"
#include "core/wire/wire.h"
#include "criu-plugin/dump_render.h"

namespace kfdcp::criu {

namespace {

/// One PROCESS_INFO per KFD process, whatever the number of its files: on kernels up to 6.12 a
/// second one would evict the queues for ever. UNPAUSE shows whether a further file belongs to a
/// process that is paused already; if so its pause is taken again. Nothing for a process without
/// KFD.
std::optional<kfd::ProcessInfo> pause(int session, const GpuProcess& process, std::size_t ordinal,
                                      std::vector<int>& paused) {
  std::vector<int> fds = {process.pidfd.get()};
  if (!process.kfd_files.empty()) fds.push_back(process.kfd_files.front().get());
  // The session learns of the pause first, so that it can undo it when this process dies.
  send_message(session, MessageType::dump_pause, {ordinal, static_cast<std::uint64_t>(process.pid)},
               procfs::comm(process.pid), fds);
  if (process.kfd_files.empty()) return std::nullopt;
  stage("plugin-dump", "pausing");
  kfd::ProcessInfo info = kfd::process_info(process.kfd_files.front().get());
  stage("plugin-dump", "paused");
  paused.push_back(process.kfd_files.front().get());
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

/// CHECKPOINT stops the whole kernel when a process with a BO sees a GPU whose VM it has not
/// acquired.
void refuse_unacquired(const GpuProcess& process, const kfd::ProcessInfo& info) {
  if (info.num_bos == 0) return;
  for (const std::uint32_t gpu_id : unacquired_vms(process)) {
    throw Error(ErrorCode::unsupported,
                "pid " + std::to_string(process.pid) + " may use GPU " + std::to_string(gpu_id) +
                    " and has not opened it: the kernel would crash while it saves this process. "
                    "Give the container that GPU's render node, or no access to that GPU");
  }
}

/// What CHECKPOINT would give for a process without KFD: the GPUs whose render nodes it has open.
kfd::Checkpoint without_kfd(const GpuProcess& process) {
  std::set<std::uint32_t> ids;
  for (const auto& file : process.render_files) ids.insert(file.gpu_id);
  kfd::Checkpoint saved;
  saved.state.ns_pid = procfs::ns_pid(process.pid);
  for (const std::uint32_t id : ids) saved.state.devices.push_back({id, id, KFD_INVALID_FD, 0});
  return saved;
}

void send_process(int session, GpuProcess& process, std::uint32_t ordinal,
                  std::optional<kfd::ProcessInfo>& info, std::uint32_t& next_render_file) {
  if (info) refuse_unacquired(process, *info);
  kfd::Checkpoint saved =
      info ? kfd::checkpoint_paused(process.kfd_files.front().get(), *info) : without_kfd(process);
  saved.state.ordinal = ordinal;
  link_render_files(process, saved);
  saved.state.vmas = mappings(process, saved.state);
  const std::vector<std::byte> bytes = encode_state(saved.state);
  const UniqueFd memfd = make_memfd("kfd-state", bytes.data(), bytes.size());
  send_message(session, MessageType::dump_state, {ordinal}, "", {memfd.get()});
  // The descriptors here are closed on return. The session's copies prevent reuse of the inodes.
  send_buffers(session, MessageType::dump_buffers, ordinal, saved.dmabufs);
  send_render_files(session, process, saved.state, next_render_file);
}

}  // namespace

void pause_and_send(int session, std::vector<GpuProcess>& processes,
                    const std::vector<HeldDmabuf>& dmabufs, std::vector<int>& paused) {
  // Queues of one process can write buffers of another: all processes are paused before any state
  // is read.
  std::vector<std::optional<kfd::ProcessInfo>> infos;
  for (const GpuProcess& process : processes) {
    infos.push_back(pause(session, process, infos.size(), paused));
  }
  stage("plugin-dump", "all-paused");
  std::uint32_t render_files = 0;  // numbered so far
  for (std::size_t i = 0; i < infos.size(); ++i) {
    send_process(session, processes[i], static_cast<std::uint32_t>(i), infos[i], render_files);
  }
  for (const auto& [pid, comm, fd, inode] : dmabufs) {
    send_message(session, MessageType::dump_dmabuf,
                 {inode, static_cast<std::uint64_t>(pid), static_cast<std::uint64_t>(fd)}, comm,
                 {});
  }
}

}  // namespace kfdcp::criu
