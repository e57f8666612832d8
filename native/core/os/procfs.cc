#include "core/os/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string_view>

#include "core/os/error.h"
#include "core/os/text_file.h"

namespace kfdcp::procfs {

namespace {

constexpr unsigned kDrmMajor = 226;
constexpr unsigned kFirstRenderMinor = 128;

std::string proc(int pid, const std::string& rest) {
  return "/proc/" + std::to_string(pid) + "/" + rest;
}

std::string read_link(const std::string& path) {
  char buffer[4096];
  const ssize_t n = ::readlink(path.c_str(), buffer, sizeof buffer);
  return n < 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(n));
}

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(path.c_str()));
  if (!dir) {
    // A process may have ended, and not every host has KFD. Anything else would hide a GPU.
    if (errno == ENOENT || errno == ESRCH) return names;
    throw io_error(path);
  }
  while (const dirent* entry = ::readdir(dir.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

/// Empty for a process that has ended. Anything else that cannot be read would hide a GPU.
std::string text_of(const std::string& path) {
  std::optional<std::string> text = read_text(path);
  if (text) return *std::move(text);
  if (errno == ENOENT || errno == ESRCH) return {};
  throw io_error(path);
}

}  // namespace

int kfd_major(const std::string& root) {
  const std::string devices = text_of(root + "/proc/devices");
  std::string_view rest = devices;
  while (const auto line = take_line(rest)) {
    std::string_view fields = *line;
    const auto major = take_integer<int>(fields);
    if (major && take_word(fields) == "kfd") return *major;
    if (*line == "Block devices:") break;
  }
  return -1;
}

std::map<std::uint32_t, std::uint32_t> gpus_by_minor(const std::string& root) {
  std::map<std::uint32_t, std::uint32_t> gpus;
  const std::string nodes = root + "/sys/class/kfd/kfd/topology/nodes";
  for (const std::string& node : names_in(nodes)) {
    // EPERM: the device rules of the caller's cgroup hide this GPU.
    const std::string id_text = read_text(nodes + "/" + node + "/gpu_id").value_or("");
    const std::string properties = read_text(nodes + "/" + node + "/properties").value_or("");
    std::string_view id_rest = id_text;
    const std::uint32_t id = take_integer<std::uint32_t>(id_rest).value_or(0);
    if (id == 0) continue;  // a CPU
    std::string_view rest = properties;
    while (const auto line = take_line(rest)) {
      std::string_view fields = *line;
      if (take_word(fields) != "drm_render_minor") continue;
      if (const auto minor = take_integer<std::uint32_t>(fields)) gpus[*minor] = id;
    }
  }
  return gpus;
}

bool is_kfd(mode_t mode, dev_t rdev, int kfd_major) {
  return S_ISCHR(mode) && kfd_major >= 0 && major(rdev) == static_cast<unsigned>(kfd_major);
}

bool is_render(mode_t mode, dev_t rdev) {
  return S_ISCHR(mode) && major(rdev) == kDrmMajor && minor(rdev) >= kFirstRenderMinor;
}

bool is_card(mode_t mode, dev_t rdev) {
  return S_ISCHR(mode) && major(rdev) == kDrmMajor && minor(rdev) < kFirstRenderMinor;
}

dev_t render_device(std::uint32_t minor) { return makedev(kDrmMajor, minor); }

std::vector<int> process_tree(int top) {
  std::vector<int> tree{top};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const std::string tasks = proc(tree[i], "task");
    for (const std::string& task : names_in(tasks)) {
      const std::string children = text_of(tasks + "/" + task + "/children");
      std::string_view rest = children;
      while (const auto child = take_integer<int>(rest)) tree.push_back(*child);
    }
  }
  return tree;
}

std::uint32_t ns_pid(int pid) {
  const std::string status = text_of(proc(pid, "status"));
  std::string_view rest = status;
  while (const auto line = take_line(rest)) {
    std::string_view fields = *line;
    if (take_word(fields) != "NSpid:") continue;
    std::uint32_t last = 0;
    while (const auto number = take_integer<std::uint32_t>(fields)) last = *number;
    return last;
  }
  throw Error(ErrorCode::io, proc(pid, "status") + ": no NSpid line");
}

std::string comm(int pid) {
  const std::string text = text_of(proc(pid, "comm"));
  std::string_view rest = text;
  std::string name(take_line(rest).value_or(""));
  for (char& c : name) {
    if (c < ' ' || c > '~') c = '?';
  }
  return name;
}

std::string namespace_of(int pid, const char* name) {
  return read_link(proc(pid, std::string("ns/") + name));
}

bool is_kfd_process(int pid, const std::string& root) {
  struct stat info {};
  const std::string path = root + "/sys/class/kfd/kfd/proc/" + std::to_string(pid);
  return ::stat(path.c_str(), &info) == 0;
}

std::vector<OpenFile> open_files(int pid) {
  std::vector<OpenFile> files;
  const std::string directory = proc(pid, "fd");
  for (const std::string& name : names_in(directory)) {
    OpenFile file{};
    struct stat info {};
    const std::string path = directory + "/" + name;
    std::string_view digits = name;
    const auto fd = take_integer<int>(digits);
    if (!fd || ::stat(path.c_str(), &info) == -1) continue;
    file.fd = *fd;
    file.mode = info.st_mode;
    file.rdev = info.st_rdev;
    file.inode = info.st_ino;
    file.link = read_link(path);
    files.push_back(std::move(file));
  }
  return files;
}

UniqueFd open_pidfd(int pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) throw io_error("pidfd_open of pid " + std::to_string(pid));
  return fd;
}

UniqueFd copy_descriptor(int pidfd, int fd) {
  UniqueFd copy(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, fd, 0)));
  if (!copy) throw io_error("pidfd_getfd of descriptor " + std::to_string(fd));
  return copy;
}

std::optional<std::uint64_t> dmabuf_inode(int fd) {
  struct statfs system {};
  struct stat info {};
  if (::fstatfs(fd, &system) == -1 || ::fstat(fd, &info) == -1) throw io_error("fstat");
  if (system.f_type != DMA_BUF_MAGIC) return std::nullopt;
  return info.st_ino;
}

bool same_file(int a, int b) {
  const auto self = ::getpid();
  const long order = ::syscall(SYS_kcmp, self, self, KCMP_FILE, a, b);
  if (order == -1) throw io_error("kcmp");
  return order == 0;
}

namespace {

/// The range and offset of a line of maps: "start-end perms offset ...", hexadecimal.
DeviceVma vma_of(std::string_view line, int pid) {
  DeviceVma vma{};
  if (std::sscanf(std::string(line).c_str(), "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64, &vma.start,
                  &vma.end, &vma.pgoff) != 3) {
    throw Error(ErrorCode::io, proc(pid, "maps") + ": unreadable line");
  }
  return vma;
}

/// The file behind a mapping.
struct stat stat_mapped(int pid, std::uint64_t start, std::uint64_t end) {
  char range[64];
  std::snprintf(range, sizeof range, "map_files/%" PRIx64 "-%" PRIx64, start, end);
  struct stat info {};
  if (::stat(proc(pid, range).c_str(), &info) == -1) throw io_error(proc(pid, range));
  return info;
}

}  // namespace

GpuVmas gpu_vmas(int pid, int kfd_major) {
  GpuVmas vmas;
  const std::string maps = text_of(proc(pid, "maps"));
  std::string_view rest = maps;
  while (const auto line = take_line(rest)) {
    if (line->ends_with(kIoUring)) vmas.io_uring = true;
    // A container may have its device nodes anywhere, so any file may be one.
    if (line->find(" /") == line->npos) continue;
    DeviceVma vma = vma_of(*line, pid);
    // The numbers in maps belong to the file system. The node itself has the numbers of the device.
    const struct stat info = stat_mapped(pid, vma.start, vma.end);
    const bool has_kind = (info.st_mode & S_IFMT) != 0;  // a dma-buf has none, not even a name's
    if (is_kfd(info.st_mode, info.st_rdev, kfd_major)) {
      vmas.devices.push_back(vma);
    } else if (is_render(info.st_mode, info.st_rdev)) {
      vma.render_minor = minor(info.st_rdev);
      vmas.devices.push_back(vma);
    } else if (is_card(info.st_mode, info.st_rdev)) {
      vmas.cards.push_back(minor(info.st_rdev));
    } else if (!has_kind && line->find(" /dmabuf:") != line->npos) {
      vmas.dmabufs.push_back({vma.start, info.st_ino});
    }
  }
  return vmas;
}

}  // namespace kfdcp::procfs
