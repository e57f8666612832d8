#include "core/kfd/kfd.h"

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "core/os/device_call.h"
#include "core/os/error.h"

namespace kfdcp::kfd {

namespace {

/// None but UNPAUSE may be tried again: PROCESS_INFO evicts once more each time, and RESTORE fails
/// with EINVAL on what its first try has left, which would hide the reason.
int criu_op(int fd, std::uint32_t op, kfd_ioctl_criu_args& args) {
  args.op = op;
  const auto call = op == KFD_CRIU_OP_UNPAUSE ? call_device : call_device_once;
  return call(fd, AMDKFD_IOC_CRIU_OP, &args);
}

template <class T>
std::uint64_t address_of(std::vector<T>& items) {
  return reinterpret_cast<std::uint64_t>(items.data());
}

/// How often CHECKPOINT is tried with newly counted objects.
constexpr int kCounts = 3;

using Dmabufs = std::vector<std::pair<std::uint32_t, UniqueFd>>;

/// `taken` has room for all of `bos`: with descriptors in the buckets, nothing may throw.
void take_dmabufs(std::vector<kfd_criu_bo_bucket>& bos, Dmabufs& taken) noexcept {
  for (std::uint32_t i = 0; i < bos.size(); ++i) {
    if (bos[i].dmabuf_fd == KFD_INVALID_FD) continue;
    taken.emplace_back(i, UniqueFd(static_cast<int>(bos[i].dmabuf_fd)));
    bos[i].dmabuf_fd = KFD_INVALID_FD;
  }
}

/// SDMA queues come back under their numbers on the GPU, or not at all:
/// kfd_device_queue_manager.c:allocate_sdma_queue@6.12.117, @7.3.4. Nothing else of RESTORE is
/// EBUSY.
Error restore_error(int err) {
  const Error error = call_error("KFD RESTORE", err);
  if (err != EBUSY) return error;
  const std::string why =
      "; a recorded number of an SDMA queue is taken by another process on this GPU";
  return Error(error.code, error.what() + why, error.err);
}

}  // namespace

ProcessInfo process_info(int kfd_fd) {
  kfd_ioctl_criu_args args{};
  if (const int err = criu_op(kfd_fd, KFD_CRIU_OP_PROCESS_INFO, args)) {
    throw call_error("KFD PROCESS_INFO", err);
  }
  return {args.pid, args.num_devices, args.num_bos, args.num_objects, args.priv_data_size};
}

Checkpoint checkpoint(int kfd_fd, const ProcessInfo& info) {
  Checkpoint result;
  ProcessState& state = result.state;
  state.ns_pid = info.ns_pid;
  state.num_objects = info.num_objects;
  state.devices.resize(info.num_devices);
  // The kernel refuses a null array, even an empty one.
  state.bos.resize(info.num_bos == 0 ? 1 : info.num_bos);
  for (auto& bo : state.bos) bo.dmabuf_fd = KFD_INVALID_FD;
  state.priv.resize(info.priv_bytes);
  result.dmabufs.reserve(info.num_bos);

  kfd_ioctl_criu_args args{};
  args.devices = address_of(state.devices);
  args.bos = address_of(state.bos);
  args.priv_data = address_of(state.priv);
  args.priv_data_size = info.priv_bytes;
  args.num_devices = info.num_devices;
  args.num_bos = info.num_bos;
  args.num_objects = info.num_objects;
  if (const int err = criu_op(kfd_fd, KFD_CRIU_OP_CHECKPOINT, args)) {
    throw call_error("KFD CHECKPOINT", err);
  }
  state.bos.resize(info.num_bos);
  take_dmabufs(state.bos, result.dmabufs);
  for (auto& device : state.devices) device.drm_fd = KFD_INVALID_FD;
  return result;
}

Checkpoint checkpoint_paused(int kfd_fd, ProcessInfo& info) {
  for (int left = kCounts;; --left) {
    try {
      return checkpoint(kfd_fd, info);
    } catch (const Error& error) {
      if (error.err != EINVAL || left == 1) throw;
    }
    unpause(kfd_fd);
    info = process_info(kfd_fd);
  }
}

bool unpause(int kfd_fd) {
  kfd_ioctl_criu_args args{};
  const int err = criu_op(kfd_fd, KFD_CRIU_OP_UNPAUSE, args);
  if (err == EINVAL) return false;
  if (err != 0) throw call_error("KFD UNPAUSE", err);
  return true;
}

Dmabufs restore(int kfd_fd, ProcessState& state, const std::vector<int>& drm_fds) {
  if (drm_fds.size() != state.devices.size()) {
    throw Error(ErrorCode::protocol, "KFD RESTORE: one render descriptor per GPU is needed");
  }
  for (std::size_t i = 0; i < drm_fds.size(); ++i) {
    state.devices[i].drm_fd = static_cast<std::uint32_t>(drm_fds[i]);
  }
  // A field that the kernel does not write must not look like a descriptor.
  for (auto& bo : state.bos) bo.dmabuf_fd = KFD_INVALID_FD;
  Dmabufs dmabufs;
  dmabufs.reserve(state.bos.size());
  kfd_ioctl_criu_args args{};
  args.devices = address_of(state.devices);
  args.bos = state.bos.empty() ? 0 : address_of(state.bos);
  args.priv_data = address_of(state.priv);
  args.priv_data_size = state.priv.size();
  args.num_devices = static_cast<std::uint32_t>(state.devices.size());
  args.num_bos = static_cast<std::uint32_t>(state.bos.size());
  args.num_objects = state.num_objects;
  const int err = criu_op(kfd_fd, KFD_CRIU_OP_RESTORE, args);
  for (auto& device : state.devices) device.drm_fd = KFD_INVALID_FD;
  if (err != 0) throw restore_error(err);
  take_dmabufs(state.bos, dmabufs);
  return dmabufs;
}

namespace {

/// The first minor version with ages (KFD_IOCTL_MINOR_VERSION). Earlier ones have none to compare.
constexpr std::uint32_t kAgesMinor = 14;

enum class EventState { absent, unset, set };

/// Takes what an auto-reset event is set with.
EventState take_event(int kfd_fd, std::uint32_t id) {
  kfd_event_data event{};
  event.event_id = id;
  kfd_ioctl_wait_events_args args{};
  args.events_ptr = reinterpret_cast<std::uint64_t>(&event);
  args.num_events = 1;
  const int err = call_device(kfd_fd, AMDKFD_IOC_WAIT_EVENTS, &args);
  if (err == EINVAL) return EventState::absent;
  if (err != 0) throw call_error("KFD WAIT_EVENTS of event " + std::to_string(id), err);
  return args.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE ? EventState::set : EventState::unset;
}

/// False when there is none to set: only signal events are set by the CPU.
bool set_event(int kfd_fd, std::uint32_t id) {
  kfd_ioctl_set_event_args args{};
  args.event_id = id;
  const int err = call_device(kfd_fd, AMDKFD_IOC_SET_EVENT, &args);
  if (err != 0 && err != EINVAL) {
    throw call_error("KFD SET_EVENT of event " + std::to_string(id), err);
  }
  return err == 0;
}

void reset_event(int kfd_fd, std::uint32_t id) {
  kfd_ioctl_reset_event_args args{};
  args.event_id = id;
  must_call(kfd_fd, AMDKFD_IOC_RESET_EVENT, &args,
            "KFD RESET_EVENT of event " + std::to_string(id));
}

}  // namespace

void age_events(int kfd_fd) {
  const Version has = version(kfd_fd);
  if (has.major == 1 && has.minor < kAgesMinor) return;
  // Only the blob has their numbers, and its layout belongs to the kernel. No event has number 0.
  for (std::uint32_t id = 1; id < KFD_SIGNAL_EVENT_LIMIT; ++id) {
    const EventState state = take_event(kfd_fd, id);
    if (state == EventState::absent || !set_event(kfd_fd, id)) continue;
    set_event(kfd_fd, id);
    if (state == EventState::unset) reset_event(kfd_fd, id);
  }
}

void resume(int kfd_fd, std::uint32_t pid) {
  kfd_ioctl_criu_args args{};
  args.pid = pid;
  if (const int err = criu_op(kfd_fd, KFD_CRIU_OP_RESUME, args)) {
    throw call_error("KFD RESUME of pid " + std::to_string(pid), err);
  }
}

namespace {

std::uint64_t raw(BoHandle bo) { return std::uint64_t{bo.gpu_id} << 32 | bo.number; }

std::string name_of(BoHandle bo) {
  return "BO " + std::to_string(bo.number) + " of GPU " + std::to_string(bo.gpu_id);
}

}  // namespace

void map_memory(int kfd_fd, BoHandle bo, const std::vector<std::uint32_t>& gpus) {
  kfd_ioctl_map_memory_to_gpu_args args{};
  args.handle = raw(bo);
  args.device_ids_array_ptr = reinterpret_cast<std::uint64_t>(gpus.data());
  args.n_devices = static_cast<std::uint32_t>(gpus.size());
  must_call(kfd_fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args, "KFD MAP_MEMORY of " + name_of(bo));
}

void unmap_memory(int kfd_fd, BoHandle bo, const std::vector<std::uint32_t>& gpus) {
  kfd_ioctl_unmap_memory_from_gpu_args args{};
  args.handle = raw(bo);
  args.device_ids_array_ptr = reinterpret_cast<std::uint64_t>(gpus.data());
  args.n_devices = static_cast<std::uint32_t>(gpus.size());
  must_call(kfd_fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args, "KFD UNMAP_MEMORY of " + name_of(bo));
}

void free_memory(int kfd_fd, BoHandle bo) {
  kfd_ioctl_free_memory_of_gpu_args args{};
  args.handle = raw(bo);
  must_call(kfd_fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args, "KFD FREE_MEMORY of " + name_of(bo));
}

BoHandle import_dmabuf(int kfd_fd, std::uint32_t gpu_id, int dmabuf_fd, std::uint64_t va) {
  kfd_ioctl_import_dmabuf_args args{};
  args.va_addr = va;
  args.gpu_id = gpu_id;
  args.dmabuf_fd = static_cast<std::uint32_t>(dmabuf_fd);
  must_call(kfd_fd, AMDKFD_IOC_IMPORT_DMABUF, &args,
            "KFD IMPORT_DMABUF on GPU " + std::to_string(gpu_id));
  return {gpu_id, static_cast<std::uint32_t>(args.handle)};
}

UniqueFd export_dmabuf(int kfd_fd, BoHandle bo) {
  // Headers of Debian 12 do not have it.
  struct {
    std::uint64_t handle;
    std::uint32_t flags;
    std::uint32_t dmabuf_fd;
  } args{raw(bo), O_CLOEXEC, 0};
  must_call(kfd_fd, AMDKFD_IOWR(0x24, decltype(args)), &args,
            "KFD EXPORT_DMABUF of " + name_of(bo));
  return UniqueFd(static_cast<int>(args.dmabuf_fd));
}

BoHandle allocate_page(int kfd_fd, std::uint32_t gpu_id, std::uint64_t va) {
  kfd_ioctl_alloc_memory_of_gpu_args args{};
  args.va_addr = va;
  args.size = 4096;
  args.gpu_id = gpu_id;
  args.flags = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
  must_call(kfd_fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args,
            "KFD ALLOC_MEMORY of a page on GPU " + std::to_string(gpu_id));
  return {gpu_id, static_cast<std::uint32_t>(args.handle)};
}

Version version(int kfd_fd) {
  kfd_ioctl_get_version_args args{};
  must_call(kfd_fd, AMDKFD_IOC_GET_VERSION, &args, "KFD GET_VERSION");
  return {args.major_version, args.minor_version};
}

}  // namespace kfdcp::kfd
