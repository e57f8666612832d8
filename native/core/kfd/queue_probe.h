// Asks the kernel whether RESTORE takes a queue with MQDs of a given size, without making one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kfdcp::kfd {

/// A GPU that KFD shows to the caller, and its render node.
struct ProbeGpu {
  std::uint32_t gpu_id;
  std::string render_node;
};

/// A queue of one die has one MQD of `die_bytes`; that in question has `mqd_bytes`. `type`: enum
/// kfd_queue_type.
struct ProbedQueue {
  std::uint32_t gpu_id;
  std::uint32_t type;
  std::uint32_t die_bytes;
  std::uint32_t mqd_bytes;
};

/// `unknown`: the answer was about something else, or did not come in time.
enum class Taken : std::uint8_t { no, yes, unknown };

/// Asks in child processes, which are KFD processes of their own and end at once. `gpus`: all that
/// KFD shows. Needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN. Throws Error{io}.
///
/// RESTORE is called with no BO and one queue, whose record ends where readable memory ends. It
/// compares the size of the MQDs before it copies them (EINVAL), and copies them before it makes
/// anything of the queue (EFAULT): kfd_process_queue_manager.c:kfd_criu_restore_queue@6.12.118,
/// @7.2.13 and @7.3.4. So neither answer leaves a queue. EINVAL has other reasons too. It is
/// believed when the size of one die gets EFAULT from a second child.
///
/// What a child does beside that is what each HIP program does when it starts and ends: it acquires
/// a VM on each GPU (kfd_chardev.c:criu_restore_devices@7.3.4) and has no queue. Queues of others
/// are not evicted: a GPU without a VM of the process is left alone
/// (kfd_device_queue_manager.c:evict_process_queues_cpsch@7.3.4). As with every eviction, the
/// driver forgets that a GPU's scheduler hangs (kfd_process.c:kfd_process_evict_queues@7.3.4). The
/// kernel logs the failure.
Taken restore_takes(const std::vector<ProbeGpu>& gpus, const ProbedQueue& queue,
                    const std::string& kfd_node = "/dev/kfd");

}  // namespace kfdcp::kfd
