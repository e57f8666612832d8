// Facts about processes and their device files from /proc and /sys.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/os/fd.h"

namespace kfdcp::procfs {

/// Major number of /dev/kfd (dynamic, from /proc/devices), or -1 when there is no KFD.
/// `root`, here and below: the directory that holds `proc` and `sys`, without a slash at its end.
int kfd_major(const std::string& root = "");
/// The GPUs of the KFD topology: minor of the render node to gpu_id.
std::map<std::uint32_t, std::uint32_t> gpus_by_minor(const std::string& root = "");

bool is_kfd(mode_t mode, dev_t rdev, int kfd_major);
/// A DRM render node: major 226, minor 128 and above (drivers/gpu/drm/drm_drv.c).
bool is_render(mode_t mode, dev_t rdev);

/// A DRM card node (or control node, up to Linux 4.18): major 226, minor below 128.
bool is_card(mode_t mode, dev_t rdev);
/// The device of render node `minor`.
dev_t render_device(std::uint32_t minor);

/// `top` and all its descendants, parents first.
std::vector<int> process_tree(int top);

/// The innermost pid of `pid` (last number of NSpid in /proc/PID/status).
std::uint32_t ns_pid(int pid);
/// The name of `pid`, which it chooses itself: without control characters, for logs and terminals.
std::string comm(int pid);
/// Link text of /proc/PID/ns/<name>, e.g. "user:[4026531837]".
std::string namespace_of(int pid, const char* name);
/// True when KFD lists `pid` as one of its processes (/sys/class/kfd/kfd/proc).
bool is_kfd_process(int pid, const std::string& root = "");

/// The name of io_uring's file, in links of descriptors and in maps
/// (io_uring/io_uring.c:io_uring_get_file@6.12.118).
inline constexpr std::string_view kIoUring = "anon_inode:[io_uring]";

struct OpenFile {
  int fd;
  mode_t mode;
  dev_t rdev;
  std::uint64_t inode;
  std::string link;  // text of /proc/PID/fd/N
};
/// Empty for a process that has ended. Throws Error{io} when they cannot be listed.
std::vector<OpenFile> open_files(int pid);

/// Copies descriptor `fd` of process `pid` (pidfd_getfd): the same struct file.
UniqueFd copy_descriptor(int pidfd, int fd);
UniqueFd open_pidfd(int pid);

/// The inode of the dma-buf behind descriptor `fd` of the caller; nullopt for any other file.
std::optional<std::uint64_t> dmabuf_inode(int fd);

/// Same struct file? (kcmp KCMP_FILE, both descriptors of the caller)
bool same_file(int a, int b);

struct DeviceVma {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t pgoff;                        // bytes
  std::optional<std::uint32_t> render_minor;  // nullopt: of KFD
};
struct DmabufVma {
  std::uint64_t start;
  std::uint64_t inode;
};
/// In address order.
struct GpuVmas {
  std::vector<DeviceVma> devices;    // of KFD and render nodes, whatever path they were opened by
  std::vector<std::uint32_t> cards;  // minors of card nodes
  std::vector<DmabufVma> dmabufs;    // made by a dma-buf's descriptor
  bool io_uring = false;             // rings of io_uring are mapped, whose descriptor may be closed
};
/// The mappings of `pid` that may be a GPU's, and whether there are rings of io_uring. Throws
/// Error{io}.
GpuVmas gpu_vmas(int pid, int kfd_major);

}  // namespace kfdcp::procfs
