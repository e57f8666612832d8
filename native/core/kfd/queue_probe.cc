#include "core/kfd/queue_probe.h"

#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/os/device_call.h"
#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/os/page_memory.h"
#include "core/os/procfs.h"

namespace kfdcp::kfd {

namespace {

// A call takes milliseconds. Only a GPU that hangs takes longer.
constexpr int kAnswerTimeoutMs = 20'000;

// The private data: kfd_priv.h, struct kfd_criu_*_priv_data, Linux 5.18 to 7.3.
constexpr std::uint32_t kPrivateVersion = 1;
constexpr std::size_t kProcessBytes = 8;
constexpr std::size_t kDeviceBytes = 8;
constexpr std::size_t kQueueBytes = 120;
constexpr std::size_t kQueueGpuId = 64;
constexpr std::size_t kQueueType = 68;
constexpr std::size_t kQueueMqdBytes = 112;

void put(std::byte* at, std::uint32_t value) { std::memcpy(at, &value, sizeof value); }

/// Everything that a child needs, made before it is forked: it must not allocate.
struct Request {
  Mapping memory;  // readable, and a page behind that is not
  std::vector<kfd_criu_device_bucket> devices;
  kfd_ioctl_criu_args args{};
};

Request request_for(const std::vector<ProbeGpu>& gpus, const ProbedQueue& queue,
                    std::uint32_t mqd_bytes) {
  const std::size_t size = kProcessBytes + gpus.size() * kDeviceBytes + kQueueBytes;
  const std::size_t readable = align_up(size, kPageBytes);
  Request request{page_memory(readable + kPageBytes), {}, {}};
  if (::mprotect(request.memory.data() + readable, kPageBytes, PROT_NONE) != 0) {
    throw io_error("memory of the queue probe");
  }
  std::byte* const process = request.memory.data() + readable - size;
  std::byte* const record = process + size - kQueueBytes;
  put(process, kPrivateVersion);
  put(record + kQueueGpuId, queue.gpu_id);
  put(record + kQueueType, queue.type);
  put(record + kQueueMqdBytes, mqd_bytes);
  for (const ProbeGpu& gpu : gpus) {
    request.devices.push_back({gpu.gpu_id, gpu.gpu_id, KFD_INVALID_FD, 0});
  }
  request.args.op = KFD_CRIU_OP_RESTORE;
  request.args.devices = reinterpret_cast<std::uint64_t>(request.devices.data());
  request.args.priv_data = reinterpret_cast<std::uint64_t>(process);
  request.args.priv_data_size = size + mqd_bytes;
  request.args.num_devices = static_cast<std::uint32_t>(gpus.size());
  request.args.num_objects = 1;
  return request;
}

/// In the child, with system calls alone. The status is the errno of RESTORE, or 0.
[[noreturn]] void ask_and_exit(Request& request, const std::vector<ProbeGpu>& gpus,
                               const char* kfd_node) {
  const int kfd = ::open(kfd_node, O_RDWR | O_CLOEXEC);
  if (kfd < 0) ::_exit(0);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const int render = ::open(gpus[i].render_node.c_str(), O_RDWR | O_CLOEXEC);
    if (render < 0) ::_exit(0);
    request.devices[i].drm_fd = static_cast<std::uint32_t>(render);
  }
  ::_exit(call_device_once(kfd, AMDKFD_IOC_CRIU_OP, &request.args));
}

/// errno of RESTORE in a child; 0 when there was none, or no answer in time.
int answer(const std::vector<ProbeGpu>& gpus, const ProbedQueue& queue, std::uint32_t mqd_bytes,
           const std::string& kfd_node) {
  Request request = request_for(gpus, queue, mqd_bytes);
  const pid_t child = ::fork();
  if (child < 0) throw io_error("fork for the queue probe");
  if (child == 0) ask_and_exit(request, gpus, kfd_node.c_str());
  const UniqueFd pidfd = procfs::open_pidfd(child);
  pollfd poller{pidfd.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&poller, 1, kAnswerTimeoutMs);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) ::kill(child, SIGKILL);
  int status = 0;
  // A child that hangs in the kernel is left to init.
  while (::waitpid(child, &status, ready == 0 ? WNOHANG : 0) < 0 && errno == EINTR) {
  }
  return ready > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace

Taken restore_takes(const std::vector<ProbeGpu>& gpus, const ProbedQueue& queue,
                    const std::string& kfd_node) {
  const int all_dies = answer(gpus, queue, queue.mqd_bytes, kfd_node);
  if (all_dies == EFAULT) return Taken::yes;
  if (all_dies != EINVAL) return Taken::unknown;
  const int one_die = answer(gpus, queue, queue.die_bytes, kfd_node);
  return one_die == EFAULT ? Taken::no : Taken::unknown;
}

}  // namespace kfdcp::kfd
