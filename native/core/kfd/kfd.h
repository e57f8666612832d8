// The KFD ioctls that the project uses (include/uapi/linux/kfd_ioctl.h).
#pragma once

#include <linux/kfd_ioctl.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/kfd/state.h"
#include "core/os/fd.h"

namespace kfdcp::kfd {

/// The answer of PROCESS_INFO. CHECKPOINT must be called with exactly these numbers.
struct ProcessInfo {
  std::uint32_t ns_pid;  // in the innermost pid namespace of the owner
  std::uint32_t num_devices;
  std::uint32_t num_bos;
  std::uint32_t num_objects;
  std::uint64_t priv_bytes;
};

/// Pauses (evicts) all queues of the process that opened `kfd_fd`. On kernels up to 6.12 every call
/// evicts once more, while unpause() restores once: call it once per KFD process.
/// Must run on the thread that traces the owner's group leader. Throws Error{gpu}.
ProcessInfo process_info(int kfd_fd);

/// Reads the whole KFD state. One dma-buf descriptor per VRAM or GTT BO comes with it, in the order
/// of `state.bos`; the buckets themselves keep KFD_INVALID_FD. Same thread rule as process_info.
struct Checkpoint {
  ProcessState state;
  std::vector<std::pair<std::uint32_t, UniqueFd>> dmabufs;  // {index in state.bos, descriptor}
};
Checkpoint checkpoint(int kfd_fd, const ProcessInfo& info);

/// As checkpoint(), for a process that process_info() has paused once. Deferred work on SVM ranges
/// may change their number after `info` was read, and CHECKPOINT answers EINVAL then
/// (kfd_chardev.c:criu_checkpoint@7.3.4). So it is undone, counted and tried again, twice at most;
/// the queues run for a moment between. `info`: the last numbers.
Checkpoint checkpoint_paused(int kfd_fd, ProcessInfo& info);

/// Undoes process_info. Returns false when the process was not paused (EINVAL); throws otherwise.
bool unpause(int kfd_fd);

/// Rebuilds `state` in the calling process, which opened `kfd_fd` itself and has no VM yet.
/// `drm_fds` holds one render descriptor for each device bucket. On return state.bos carry
/// restored_offset, and the new dma-bufs come as in checkpoint().
std::vector<std::pair<std::uint32_t, UniqueFd>> restore(int kfd_fd, ProcessState& state,
                                                        const std::vector<int>& drm_fds);

/// Gives each signal event of the calling process the age that it has when it was set once, after
/// restore(): it begins at 0 there (amdkfd/kfd_events.c), which is no age of an event in use. A
/// wait of ROCr compares with 1, the age of a new event, and would sleep on when another wait has
/// taken what set a restored event for the first time. Whether an event is set stays as it is, but
/// for debug events with auto-reset, which no ROCr makes. Before threads of the process wait.
/// Throws Error{gpu}.
void age_events(int kfd_fd);

/// Lets the queues of process `pid` (in the caller's pid namespace) run after restore().
/// Never call it for a process without a successful restore(): kernels up to 7.3 oops.
void resume(int kfd_fd, std::uint32_t pid);

/// KFD's name of a BO: its GPU, as the process knows it, and a number that counts from 0 on each.
struct BoHandle {
  std::uint32_t gpu_id;
  std::uint32_t number;
};

/// The calls of a process on memory of its own; each throws Error{gpu}. `gpus`: gpu_ids as the
/// process knows them.
void map_memory(int kfd_fd, BoHandle bo, const std::vector<std::uint32_t>& gpus);
void unmap_memory(int kfd_fd, BoHandle bo, const std::vector<std::uint32_t>& gpus);
void free_memory(int kfd_fd, BoHandle bo);
/// Makes the buffer of `dmabuf_fd` a BO of GPU `gpu_id` that map_memory() puts at address `va`. It
/// gets the lowest free number.
BoHandle import_dmabuf(int kfd_fd, std::uint32_t gpu_id, int dmabuf_fd, std::uint64_t va);

/// A dma-buf of a BO. Throws Error{gpu}, with ENOTTY before KFD 1.12
/// (include/uapi/linux/kfd_ioctl.h@6.12.107).
UniqueFd export_dmabuf(int kfd_fd, BoHandle bo);

/// A page of system memory that is a BO of GPU `gpu_id`, mapped nowhere. It gets the lowest free
/// number.
BoHandle allocate_page(int kfd_fd, std::uint32_t gpu_id, std::uint64_t va);

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};
Version version(int kfd_fd);

}  // namespace kfdcp::kfd
