// Finds the GPU processes of a stopped tree and every reason why one cannot be saved, before
// anything is paused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/drm/render_read.h"
#include "core/os/fd.h"

namespace kfdcp {

/// A process that opened /dev/kfd, not one that merely holds its file; or one that uses render
/// nodes alone.
struct GpuProcess {
  int pid = 0;
  UniqueFd pidfd;
  std::vector<UniqueFd> kfd_files;  // every distinct struct file of /dev/kfd that it opened
  struct RenderFile {
    UniqueFd file;
    std::uint32_t minor;
    std::uint32_t gpu_id;      // of its GPU on this host
    RenderSnapshot held;       // beside KFD's memory
    bool carries_kfd = false;  // it has the GPU address space of the KFD process
  };
  std::vector<RenderFile> render_files;  // every distinct struct file of a render node
};

/// A descriptor of a dma-buf, whoever made it. The inode identifies it: each dma-buf has one file.
struct HeldDmabuf {
  int pid;
  std::string comm;
  int fd;
  std::uint64_t inode;
};

struct Survey {
  std::vector<GpuProcess> processes;
  std::vector<HeldDmabuf> dmabufs;    // of all processes of a tree with a GPU
  std::vector<std::string> refusals;  // one sentence each; empty: everything can be saved
};

/// Surveys `root` and its descendants. All of them should be stopped. Empty on a host without KFD.
/// Throws Error{io}. `host`: as the root of core/os/procfs.h.
Survey survey_tree(int root, const std::string& host = "");

/// True when some process of the tree uses KFD or holds a node of a GPU open. Cheap: it stops at
/// the first; meant for processes that still run. Never true on a host without KFD.
bool holds_gpu(int root, const std::string& host = "");

}  // namespace kfdcp
