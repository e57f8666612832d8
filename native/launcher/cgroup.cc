#include "launcher/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/os/fd.h"
#include "core/os/text_file.h"

namespace kfdcp::launcher {

namespace {

constexpr char kCgroup[] = "kfd-checkpoint";
// Another launcher may take an empty cgroup for that of a killed session.
constexpr int kAttempts = 3;

struct Mount {
  std::string point;
  bool is_unified;  // version 2
};

/// Mount points of cgroup2 and of every version 1 hierarchy.
std::vector<Mount> cgroup_mounts() {
  std::vector<Mount> mounts;
  const std::string text = read_text("/proc/self/mounts").value_or("");
  std::string_view rest = text;
  while (auto line = take_line(rest)) {
    take_word(*line);  // the device
    const std::string_view point = take_word(*line);
    const std::string_view type = take_word(*line);
    if (type == "cgroup2" || type == "cgroup") {
      mounts.push_back({std::string(point), type == "cgroup2"});
    }
  }
  return mounts;
}

/// Moves the process; false when the kernel does not take it.
bool enter_cgroup(const std::string& directory, const std::string& pid) {
  const UniqueFd procs(::open((directory + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  return procs && ::write(procs.get(), pid.data(), pid.size()) == static_cast<ssize_t>(pid.size());
}

/// The kernel removes no cgroup with a process.
void remove_empty_ones(const std::string& parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    if (entry.is_directory(error)) ::rmdir(entry.path().c_str());
  }
}

bool enter_child(const std::string& parent, const std::string& name, const std::string& pid) {
  remove_empty_ones(parent);
  const std::string child = parent + "/" + name;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ::mkdir(child.c_str(), 0755);
    if (enter_cgroup(child, pid)) return true;
  }
  return false;
}

}  // namespace

void leave_cgroup(const std::string& name, const std::string& pid) {
  for (const Mount& mount : cgroup_mounts()) {
    const std::string own = mount.point + "/" + kCgroup;
    ::mkdir(own.c_str(), 0755);
    if (mount.is_unified && enter_child(own, name, pid)) continue;
    // A new cgroup of the version 1 controller "cpuset" has no CPUs and accepts no process. The
    // root cgroup does.
    if (!enter_cgroup(own, pid)) enter_cgroup(mount.point, pid);
  }
}

}  // namespace kfdcp::launcher
