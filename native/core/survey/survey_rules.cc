#include "core/survey/survey_rules.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <set>

namespace kfdcp {

namespace {

class Rules {
 public:
  explicit Rules(const TreeFacts& facts) : facts_(facts) {}

  Decision run() && {
    for (const ProcessFacts& process : facts_.processes) check_descriptors(process);
    for (const FileFacts& file : facts_.kfd) decision_.kfd_owners.push_back(kfd_owner(file));
    for (const FileFacts& file : facts_.render) {
      decision_.render_owners.push_back(render_owner(file));
    }
    check_user_namespaces();
    for (const ProcessFacts& process : facts_.processes) check_rest(process);
    return std::move(decision_);
  }

 private:
  void refuse(std::string sentence) { decision_.refusals.push_back(std::move(sentence)); }

  const ProcessFacts& process(int pid) const {
    return *std::ranges::find(facts_.processes, pid, &ProcessFacts::pid);
  }
  std::string who(int pid) const {
    return "pid " + std::to_string(pid) + " (" + process(pid).comm + ")";
  }

  void check_descriptors(const ProcessFacts& process) {
    if (!process.dmabufs.empty()) check_pid_in_namespace(process);
    // CRIU opens the files of mappings without asking a plugin, and a dma-buf cannot be opened.
    for (const auto& [address, inode] : process.mapped_dmabufs) {
      char hex[24];
      std::snprintf(hex, sizeof hex, "%#" PRIx64, address);
      refuse(who(process.pid) + " maps dma-buf inode " + std::to_string(inode) + " at address " +
             hex + ": CRIU cannot save a mapping of a dma-buf");
    }
    const char* why = ": CRIU cannot save a card node, only its render node";
    for (const auto& [fd, minor] : process.cards) {
      refuse(who(process.pid) + " holds card" + std::to_string(minor) + " open as descriptor " +
             std::to_string(fd) + why);
    }
    for (const std::uint32_t minor : process.mapped_cards) {
      refuse(who(process.pid) + " maps card" + std::to_string(minor) + why);
    }
    for (const int fd : process.smi_descriptors) {
      refuse(who(process.pid) + " listens to KFD SMI events on descriptor " + std::to_string(fd) +
             ": such a descriptor cannot be saved");
    }
    // CRIU fails as well, but only after the pause, and without the name.
    if (process.io_uring) refuse(who(process.pid) + " uses io_uring, which CRIU cannot save");
  }

  /// A restored task that asks for a dma-buf is known by the pid it has in its own namespace.
  void check_pid_in_namespace(const ProcessFacts& holder) {
    for (const ProcessFacts& other : facts_.processes) {
      if (other.pid == holder.pid || other.ns_pid != holder.ns_pid) continue;
      refuse(who(holder.pid) + " holds dma-buf inode " +
             std::to_string(holder.dmabufs.front().inode) + " open as descriptor " +
             std::to_string(holder.dmabufs.front().fd) + ", and " + who(other.pid) +
             " has the same pid in another pid namespace: at a restore they could not be "
             "distinguished");
      return;
    }
  }

  /// The process that opened a KFD file. A holder that KFD does not list only inherited it. Of
  /// several that it lists, the eldest opened the file before it forked the others, which opened
  /// theirs later: PROCESS_INFO shows at the pause whether that is so.
  int kfd_owner(const FileFacts& file) {
    std::vector<int> users;
    for (const auto& [pid, fd] : file.holders) {
      if (process(pid).kfd_process) users.push_back(pid);
    }
    with_kfd_file_.insert(users.begin(), users.end());
    const int lowest = lowest_holder(file);  // only the owner may restore it
    if (std::ranges::find(users, lowest) != users.end()) {
      owners_.insert(lowest);
      return lowest;
    }
    if (users.empty()) {
      refuse(who(lowest) + " holds /dev/kfd of a process outside the container");
    } else {
      misplaced_.insert(users.begin(), users.end());
      refuse(who(users.front()) + " owns a /dev/kfd file that " + who(lowest) +
             " with a lower pid inherited: this order cannot be restored");
    }
    return Decision::kNobody;
  }

  /// The process that a render file comes back in. It must be the one that uses it.
  int render_owner(const FileFacts& file) {
    std::vector<int> users;
    for (const auto& [pid, fd] : file.holders) {
      if (with_kfd_file_.contains(pid)) users.push_back(pid);
    }
    const int lowest = lowest_holder(file);
    const int owner = users.empty() ? lowest : users.front();
    for (const std::string& reason : file.refusals) {
      refuse(who(owner) + ": " + name_of(file, owner) + ": " + reason);
    }
    if (users.size() > 1) {
      refuse(who(owner) + " and " + who(users[1]) + " share one render file: not supported yet");
      return Decision::kNobody;
    }
    if (owner != lowest) {
      refuse(who(owner) + " uses a render file that " + who(lowest) +
             " with a lower pid holds, too: this order cannot be restored");
      return Decision::kNobody;
    }
    if (!users.empty() && !owners_.contains(owner)) return Decision::kNobody;
    with_render_file_.insert(owner);
    return owner;
  }

  /// CRIU reopens a shared file in the holder with the lowest pid in the container.
  int lowest_holder(const FileFacts& file) const {
    return std::ranges::min_element(file.holders, {},
                                    [this](const Holder& one) { return process(one.pid).ns_pid; })
        ->pid;
  }

  /// A render file as `holder` knows it.
  static std::string name_of(const FileFacts& file, int holder) {
    const int fd = std::ranges::find(file.holders, holder, &Holder::pid)->fd;
    return "descriptor " + std::to_string(fd) + " (" + render_name(file.minor) + ")";
  }
  static std::string render_name(std::uint32_t minor) { return "renderD" + std::to_string(minor); }

  void check_user_namespaces() {
    const auto foreign =
        std::ranges::find(facts_.processes, true, &ProcessFacts::foreign_user_namespace);
    if (foreign == facts_.processes.end()) return;
    refuse(who(foreign->pid) +
           " is in a user namespace: KFD allows saving and restoring only in the initial one");
  }

  void check_rest(const ProcessFacts& process) {
    for (const std::uint32_t minor : process.without_node) {
      refuse(who(process.pid) + " uses " + render_name(minor) +
             ", and the container's /dev has no node of that GPU: a restore could not open it");
    }
    for (const std::uint32_t minor : process.foreign_maps) {
      refuse(who(process.pid) + " maps " + render_name(minor) + ", which is none of KFD's GPUs");
    }
    if (owners_.contains(process.pid) || misplaced_.contains(process.pid)) return;
    if (process.kfd_process) {
      refuse(who(process.pid) + " uses KFD but closed its /dev/kfd descriptor: not supported");
    } else if (process.maps_gpu && !with_render_file_.contains(process.pid)) {
      refuse(who(process.pid) + " maps GPU memory of another process: not supported yet");
    }
  }

  const TreeFacts& facts_;
  Decision decision_;
  std::set<int> with_kfd_file_;  // KFD processes that hold one, whoever opened it
  std::set<int> owners_;
  std::set<int> misplaced_;         // refused as owners already
  std::set<int> with_render_file_;  // those that one comes back in
};

}  // namespace

bool TreeFacts::without_gpu() const {
  return kfd.empty() && render.empty() &&
         std::ranges::none_of(processes, [](const ProcessFacts& process) {
           return process.kfd_process || process.maps_gpu || !process.foreign_maps.empty() ||
                  !process.cards.empty() || !process.mapped_cards.empty();
         });
}

Decision decide(const TreeFacts& facts) {
  if (facts.without_gpu()) return {};
  return Rules(facts).run();
}

}  // namespace kfdcp
