// The state file: what KFD returned for one process, kept byte for byte. docs/image-format.md.
#pragma once

#include <linux/kfd_ioctl.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kfdcp {

/// One device mapping of the process, in address order, as /proc/PID/maps shows it.
struct VmaRecord {
  enum Kind : std::uint32_t { kfd = 0, render = 1 };
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t pgoff;  // bytes
  std::uint32_t kind;
  /// Render nodes: gpu_id as the BO buckets have it, since GPUs number their offsets on their own;
  /// 0 where it was not recorded (one GPU). KFD: 0.
  std::uint32_t gpu_id;
};

/// Everything needed to give one KFD process back to the kernel.
struct ProcessState {
  std::uint32_t ordinal = 0;      // n of kfd-state-<n>.img
  std::uint32_t ns_pid = 0;       // pid in its own pid namespace, as PROCESS_INFO gives it
  std::uint32_t num_objects = 0;  // queues + events + SVM ranges in the blob
  std::vector<kfd_criu_device_bucket> devices;
  std::vector<kfd_criu_bo_bucket> bos;
  std::vector<std::byte> priv;  // opaque: stored and given back byte for byte
  std::vector<VmaRecord> vmas;
};

/// Descriptors in the buckets are written as KFD_INVALID_FD.
std::vector<std::byte> encode_state(const ProcessState& state);

/// Checks a file of `bytes` bytes by its first 128, before the rest is in memory. Throws
/// Error{corrupt|unsupported}.
void check_state_head(std::span<const std::byte> head, std::uint64_t bytes);

/// Strict: checksum, counts, sizes, version. Throws Error{corrupt|unsupported}.
ProcessState decode_state(std::span<const std::byte> bytes);

}  // namespace kfdcp
