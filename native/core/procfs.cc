#include "core/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

#include "core/error.h"

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

bool parse_int(const std::string& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

int kfd_major(const std::string& root) {
  std::ifstream devices(root + "/proc/devices");
  for (std::string line; std::getline(devices, line);) {
    std::istringstream fields(line);
    int major = -1;
    std::string name;
    if (fields >> major >> name && name == "kfd") return major;
    if (line == "Block devices:") break;
  }
  return -1;
}

std::map<std::uint32_t, std::uint32_t> gpus_by_minor(const std::string& root) {
  std::map<std::uint32_t, std::uint32_t> gpus;
  const std::string nodes = root + "/sys/class/kfd/kfd/topology/nodes";
  for (const std::string& node : names_in(nodes)) {
    std::ifstream id_file(nodes + "/" + node + "/gpu_id");
    std::uint32_t id = 0;
    if (!(id_file >> id) || id == 0) continue;  // a CPU
    std::ifstream properties(nodes + "/" + node + "/properties");
    std::string key;
    for (std::uint64_t value = 0; properties >> key >> value;) {
      if (key == "drm_render_minor") gpus[static_cast<std::uint32_t>(value)] = id;
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

std::vector<int> process_tree(int top) {
  std::vector<int> tree{top};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const std::string tasks = proc(tree[i], "task");
    for (const std::string& task : names_in(tasks)) {
      std::ifstream children(tasks + "/" + task + "/children");
      for (int child = 0; children >> child;) tree.push_back(child);
    }
  }
  return tree;
}

std::uint32_t ns_pid(int pid) {
  std::ifstream status(proc(pid, "status"));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(6));
    std::uint32_t last = 0;
    for (std::uint32_t n = 0; numbers >> n;) last = n;
    return last;
  }
  throw Error(ErrorCode::io, proc(pid, "status") + ": no NSpid line");
}

std::string comm(int pid) {
  std::ifstream file(proc(pid, "comm"));
  std::string name;
  std::getline(file, name);
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
    if (!parse_int(name, file.fd) || ::stat(path.c_str(), &info) == -1) continue;
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

/// The file behind a mapping.
struct stat stat_mapped(int pid, std::uint64_t start, std::uint64_t end) {
  char range[64];
  std::snprintf(range, sizeof range, "map_files/%" PRIx64 "-%" PRIx64, start, end);
  struct stat info {};
  if (::stat(proc(pid, range).c_str(), &info) == -1) throw io_error(proc(pid, range));
  return info;
}

}  // namespace

std::vector<DmabufVma> dmabuf_vmas(int pid) {
  std::vector<DmabufVma> vmas;
  std::ifstream maps(proc(pid, "maps"));
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t start = 0, end = 0;
    if (line.find(" /dmabuf:") == std::string::npos ||
        std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &start, &end) != 2) {
      continue;
    }
    const struct stat info = stat_mapped(pid, start, end);
    const bool is_path = (info.st_mode & S_IFMT) != 0;  // of a file with such a name
    if (!is_path) vmas.push_back({start, info.st_ino});
  }
  return vmas;
}

std::vector<DeviceVma> device_vmas(int pid, int kfd_major) {
  std::vector<DeviceVma> vmas;
  std::ifstream maps(proc(pid, "maps"));
  for (std::string line; std::getline(maps, line);) {
    DeviceVma device_vma{};
    VmaRecord& vma = device_vma.record;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64, &vma.start, &vma.end,
                    &vma.pgoff) != 3) {
      throw Error(ErrorCode::io, proc(pid, "maps") + ": unreadable line");
    }
    // A container may have its device nodes anywhere, so any file may be one.
    if (line.find(" /") == std::string::npos) continue;

    // The numbers in maps are those of the file system; the node itself says which device it is.
    const struct stat info = stat_mapped(pid, vma.start, vma.end);
    if (is_kfd(info.st_mode, info.st_rdev, kfd_major)) {
      vma.kind = VmaRecord::kfd;
    } else if (is_render(info.st_mode, info.st_rdev)) {
      vma.kind = VmaRecord::render;
      device_vma.render_minor = minor(info.st_rdev);
    } else {
      continue;
    }
    vmas.push_back(device_vma);
  }
  return vmas;
}

}  // namespace kfdcp::procfs
