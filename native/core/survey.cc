#include "core/survey.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/gem_probe.h"
#include "core/procfs.h"

namespace kfdcp {

namespace {

/// One struct file and every process of the tree that holds it.
struct SharedFile {
  UniqueFd fd;
  std::vector<int> holders;
};

struct DeviceFiles {
  std::vector<SharedFile> kfd;
  std::vector<SharedFile> render;
};

std::string who(int pid) { return "pid " + std::to_string(pid) + " (" + procfs::comm(pid) + ")"; }

void add_file(std::vector<SharedFile>& files, UniqueFd fd, int pid) {
  for (SharedFile& known : files) {
    if (!procfs::same_file(known.fd.get(), fd.get())) continue;
    if (std::ranges::find(known.holders, pid) == known.holders.end()) known.holders.push_back(pid);
    return;
  }
  files.push_back({std::move(fd), {pid}});
}

DeviceFiles collect(const std::vector<int>& tree, int kfd_major,
                    std::vector<std::string>& refusals) {
  DeviceFiles found;
  for (const int pid : tree) {
    UniqueFd pidfd;
    for (const procfs::OpenFile& file : procfs::open_files(pid)) {
      const bool kfd = procfs::is_kfd(file.mode, file.rdev, kfd_major);
      const bool render = procfs::is_render(file.mode, file.rdev);
      if (kfd || render) {
        if (!pidfd) pidfd = procfs::open_pidfd(pid);
        add_file(kfd ? found.kfd : found.render, procfs::copy_descriptor(pidfd.get(), file.fd),
                 pid);
      } else if (file.link.starts_with("/dmabuf:")) {
        refusals.push_back(who(pid) + " holds dma-buf inode " + std::to_string(file.inode) +
                           " open as descriptor " + std::to_string(file.fd) +
                           ": open dma-buf descriptors cannot be saved yet");
      } else if (file.link == "anon_inode:kfd_smi_ev") {
        refusals.push_back(who(pid) + " listens to KFD SMI events on descriptor " +
                           std::to_string(file.fd) + ": such a descriptor cannot be saved");
      }
    }
  }
  return found;
}

/// The process that opened a KFD file. A holder that KFD does not list only inherited it.
int owner_of(const SharedFile& file, std::vector<std::string>& refusals) {
  std::vector<int> owners;
  std::ranges::copy_if(file.holders, std::back_inserter(owners), procfs::is_kfd_process);
  const int lowest = *std::ranges::min_element(file.holders);
  if (owners.size() == 1 && owners.front() == lowest) return lowest;
  if (owners.empty()) {
    refusals.push_back(who(lowest) + " holds /dev/kfd of a process outside the container");
  } else if (owners.size() > 1) {
    refusals.push_back(who(owners[0]) + " and " + who(owners[1]) +
                       " share one /dev/kfd file and both use the GPU: its owner is ambiguous");
  } else {
    // CRIU reopens a shared file in its lowest holder, but only the owner may restore it.
    refusals.push_back(who(owners.front()) + " owns a /dev/kfd file that " + who(lowest) +
                       " with a lower pid inherited: this order cannot be restored");
  }
  return -1;
}

void check_render(SharedFile& file, std::map<int, GpuProcess>& processes,
                  std::vector<std::string>& refusals) {
  std::vector<int> owners;
  for (const int pid : file.holders) {
    if (processes.contains(pid)) owners.push_back(pid);
  }
  const int first = file.holders.front();
  if (owners.empty()) {
    refusals.push_back(who(first) + " uses a render node without /dev/kfd: not supported yet");
    return;
  }
  if (owners.size() > 1) {
    refusals.push_back(who(owners[0]) + " and " + who(owners[1]) +
                       " share one render file: not supported yet");
    return;
  }
  if (owns_gem_objects(file.fd.get())) {
    refusals.push_back(who(owners[0]) +
                       " has GEM buffers of its own on a render node: not supported yet");
  }
  if (owns_contexts(file.fd.get())) {
    refusals.push_back(who(owners[0]) +
                       " has command submission contexts on a render node: not supported yet");
  }
  GpuProcess& process = processes.at(owners[0]);
  if (process.render_file) {
    refusals.push_back(who(owners[0]) +
                       " opened a render node more than once: which file holds its GPU memory is "
                       "ambiguous, not supported yet");
    return;
  }
  process.render_file = std::move(file.fd);
}

void check_tree(const std::vector<int>& tree, int kfd_major,
                const std::map<int, GpuProcess>& processes, std::vector<std::string>& refusals) {
  const std::string own_user_namespace = procfs::namespace_of(::getpid(), "user");
  for (const int pid : tree) {
    if (procfs::namespace_of(pid, "user") != own_user_namespace) {
      refusals.push_back(who(pid) +
                         " is in a user namespace: KFD allows saving and restoring only in the "
                         "initial one");
      break;
    }
  }
  for (const int pid : tree) {
    if (processes.contains(pid)) continue;
    if (procfs::is_kfd_process(pid)) {
      refusals.push_back(who(pid) + " uses KFD but closed its /dev/kfd descriptor: not supported");
    } else if (!procfs::device_vmas(pid, kfd_major).empty()) {
      refusals.push_back(who(pid) + " maps GPU memory of another process: not supported yet");
    }
  }
  if (const int gpus = procfs::gpu_count(); gpus > 1) {
    refusals.push_back("this host has " + std::to_string(gpus) +
                       " GPUs: hosts with several GPUs are not supported yet");
  }
}

}  // namespace

Survey survey_tree(int root) {
  Survey survey;
  const int kfd_major = procfs::kfd_major();
  const std::vector<int> tree = procfs::process_tree(root);
  DeviceFiles files = collect(tree, kfd_major, survey.refusals);
  if (files.kfd.empty() && files.render.empty()) return {};

  std::map<int, GpuProcess> processes;
  for (SharedFile& file : files.kfd) {
    const int owner = owner_of(file, survey.refusals);
    if (owner < 0) continue;
    GpuProcess& process = processes[owner];
    process.pid = owner;
    if (!process.pidfd) process.pidfd = procfs::open_pidfd(owner);
    process.kfd_files.push_back(std::move(file.fd));
  }
  for (SharedFile& file : files.render) check_render(file, processes, survey.refusals);
  check_tree(tree, kfd_major, processes, survey.refusals);
  for (auto& [pid, process] : processes) survey.processes.push_back(std::move(process));
  return survey;
}

bool holds_gpu(int root) {
  const int kfd_major = procfs::kfd_major();
  for (const int pid : procfs::process_tree(root)) {
    for (const procfs::OpenFile& file : procfs::open_files(pid)) {
      if (procfs::is_kfd(file.mode, file.rdev, kfd_major) ||
          procfs::is_render(file.mode, file.rdev)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace kfdcp
