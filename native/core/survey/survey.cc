#include "core/survey/survey.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/drm/render_read.h"
#include "core/os/device_node.h"
#include "core/os/error.h"
#include "core/os/procfs.h"
#include "core/survey/survey_rules.h"

namespace kfdcp {

namespace {

// Submitted work usually ends in milliseconds. The container does not wait longer.
constexpr int kIdleTimeoutMs = 1000;

/// The facts, and a copy of every file they speak of, in the same order.
struct Collected {
  TreeFacts facts;
  std::vector<UniqueFd> kfd;
  std::vector<UniqueFd> render;
  std::vector<RenderSnapshot> held;  // by the render files
};

/// What is asked once for the whole tree.
struct HostFacts {
  std::string root;
  int top;  // pid of the container's first process
  int kfd_major;
  std::map<std::uint32_t, std::uint32_t> gpus;  // minor of the render node to gpu_id
};

void add_file(std::vector<UniqueFd>& files, std::vector<FileFacts>& facts, UniqueFd fd,
              const Holder& holder, dev_t device) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!procfs::same_file(files[i].get(), fd.get())) continue;
    std::vector<Holder>& holders = facts[i].holders;
    if (std::ranges::find(holders, holder.pid, &Holder::pid) == holders.end()) {
      holders.push_back(holder);
    }
    return;
  }
  files.push_back(std::move(fd));
  facts.emplace_back();
  facts.back().holders = {holder};
  facts.back().minor = minor(device);
}

/// Whether the container has a node of this GPU. A process may have changed its root directory.
bool has_node(const HostFacts& host, int pid, std::uint32_t minor) {
  return std::ranges::any_of(std::array{pid, host.top}, [&](int one) {
    const std::string dev = "/proc/" + std::to_string(one) + "/root/dev";
    return find_node(dev, procfs::render_device(minor)).has_value();
  });
}

/// `used`: gets the minors of the mapped render nodes of KFD's GPUs.
void collect_maps(const HostFacts& host, ProcessFacts& process, std::set<std::uint32_t>& used) {
  std::set<std::uint32_t> foreign;
  const procfs::GpuVmas vmas = procfs::gpu_vmas(process.pid, host.kfd_major);
  for (const procfs::DeviceVma& vma : vmas.devices) {
    if (!vma.render_minor || host.gpus.contains(*vma.render_minor)) {
      process.maps_gpu = true;
      if (vma.render_minor) used.insert(*vma.render_minor);
    } else {
      foreign.insert(*vma.render_minor);
    }
  }
  process.mapped_cards = vmas.cards;
  process.io_uring = vmas.io_uring;
  process.foreign_maps.assign(foreign.begin(), foreign.end());
  for (const auto& [start, inode] : vmas.dmabufs) process.mapped_dmabufs.push_back({start, inode});
}

ProcessFacts collect_process(int pid, const HostFacts& host, Collected& into) {
  ProcessFacts facts;
  facts.pid = pid;
  facts.ns_pid = procfs::ns_pid(pid);
  facts.comm = procfs::comm(pid);
  facts.kfd_process = procfs::is_kfd_process(pid, host.root);
  std::set<std::uint32_t> used;
  collect_maps(host, facts, used);
  facts.foreign_user_namespace =
      procfs::namespace_of(pid, "user") != procfs::namespace_of(::getpid(), "user");
  UniqueFd pidfd;
  const auto copy = [&](int fd) {
    if (!pidfd) pidfd = procfs::open_pidfd(pid);
    return procfs::copy_descriptor(pidfd.get(), fd);
  };
  for (const procfs::OpenFile& file : procfs::open_files(pid)) {
    if (procfs::is_kfd(file.mode, file.rdev, host.kfd_major)) {
      add_file(into.kfd, into.facts.kfd, copy(file.fd), {pid, file.fd}, file.rdev);
    } else if (procfs::is_render(file.mode, file.rdev)) {
      add_file(into.render, into.facts.render, copy(file.fd), {pid, file.fd}, file.rdev);
      if (host.gpus.contains(minor(file.rdev))) used.insert(minor(file.rdev));
    } else if (procfs::is_card(file.mode, file.rdev)) {
      facts.cards.push_back({file.fd, minor(file.rdev)});
    } else if (file.link.starts_with("/dmabuf:")) {
      facts.dmabufs.push_back({file.fd, file.inode});
    } else if (file.link == "anon_inode:kfd_smi_ev") {
      facts.smi_descriptors.push_back(file.fd);
    } else if (file.link == procfs::kIoUring) {
      facts.io_uring = true;
    }
  }
  std::ranges::copy_if(used, std::back_inserter(facts.without_node),
                       [&](std::uint32_t one) { return !has_node(host, pid, one); });
  return facts;
}

/// What cannot even be read counts as there: it would be lost silently.
RenderSnapshot look_into(int render_fd) {
  try {
    return read_render_file(render_fd, kIdleTimeoutMs);
  } catch (const Error& error) {
    return {{}, {}, {error.what()}};
  }
}

Collected collect(const std::vector<int>& tree, const HostFacts& host) {
  Collected found;
  for (const int pid : tree) {
    found.facts.processes.push_back(collect_process(pid, host, found));
  }
  for (std::size_t i = 0; i < found.render.size(); ++i) {
    FileFacts& facts = found.facts.render[i];
    if (host.gpus.contains(facts.minor)) {
      found.held.push_back(look_into(found.render[i].get()));
    } else {  // another driver's calls may have the same numbers
      found.held.push_back({{}, {}, {"it is none of KFD's GPUs"}});
    }
    facts.refusals = found.held.back().refusals;
  }
  return found;
}

std::vector<HeldDmabuf> dmabufs_of(const TreeFacts& facts) {
  std::vector<HeldDmabuf> held;
  for (const ProcessFacts& process : facts.processes) {
    for (const auto& [fd, inode] : process.dmabufs) {
      held.push_back({process.pid, process.comm, fd, inode});
    }
  }
  return held;
}

bool holds_gpu_file(int pid, int kfd_major, const std::string& host) {
  return procfs::is_kfd_process(pid, host) ||
         std::ranges::any_of(procfs::open_files(pid), [&](const procfs::OpenFile& file) {
           return procfs::is_kfd(file.mode, file.rdev, kfd_major) ||
                  procfs::is_render(file.mode, file.rdev) || procfs::is_card(file.mode, file.rdev);
         });
}

}  // namespace

Survey survey_tree(int root, const std::string& host) {
  const int kfd_major = procfs::kfd_major(host);
  if (kfd_major < 0) return {};  // render nodes of other drivers are no business of ours
  const std::vector<int> tree = procfs::process_tree(root);
  // Every dump of the host runs this code, and most trees use no GPU.
  const bool uses_gpu = std::ranges::any_of(tree, [&](int pid) {
    if (holds_gpu_file(pid, kfd_major, host)) return true;
    const procfs::GpuVmas vmas = procfs::gpu_vmas(pid, kfd_major);
    return !vmas.devices.empty() || !vmas.cards.empty();
  });
  if (!uses_gpu) return {};
  const HostFacts facts{host, root, kfd_major, procfs::gpus_by_minor(host)};
  Collected found = collect(tree, facts);
  Decision decision = decide(found.facts);

  std::map<int, GpuProcess> processes;
  const auto process_of = [&](int pid) -> GpuProcess& {
    GpuProcess& process = processes[pid];
    process.pid = pid;
    if (!process.pidfd) process.pidfd = procfs::open_pidfd(pid);
    return process;
  };
  for (std::size_t i = 0; i < decision.kfd_owners.size(); ++i) {
    const int owner = decision.kfd_owners[i];
    if (owner != Decision::kNobody) process_of(owner).kfd_files.push_back(std::move(found.kfd[i]));
  }
  for (std::size_t i = 0; i < decision.render_owners.size(); ++i) {
    const int owner = decision.render_owners[i];
    if (owner == Decision::kNobody) continue;
    const std::uint32_t minor = found.facts.render[i].minor;
    const auto gpu = facts.gpus.find(minor);
    if (gpu == facts.gpus.end()) continue;  // refused
    process_of(owner).render_files.push_back(
        {std::move(found.render[i]), minor, gpu->second, std::move(found.held[i]), false});
  }
  Survey survey;
  for (auto& [pid, process] : processes) survey.processes.push_back(std::move(process));
  if (!survey.processes.empty()) survey.dmabufs = dmabufs_of(found.facts);
  survey.refusals = std::move(decision.refusals);
  return survey;
}

bool holds_gpu(int root, const std::string& host) {
  const int kfd_major = procfs::kfd_major(host);
  return kfd_major >= 0 && std::ranges::any_of(procfs::process_tree(root), [&](int pid) {
           return holds_gpu_file(pid, kfd_major, host);
         });
}

}  // namespace kfdcp
