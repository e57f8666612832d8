#include "core/os/device_node.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <memory>
#include <utility>

#include "core/os/fd.h"

namespace kfdcp {

namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

/// Below `parent`, with `levels` levels of folders. The path that is found begins with `name`.
std::optional<std::string> find_below(int parent, const std::string& name, dev_t device,
                                      int levels) {
  UniqueFd folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return std::nullopt;
  const std::unique_ptr<DIR, CloseDir> dir(::fdopendir(folder.get()));
  if (!dir) return std::nullopt;
  const int fd = folder.release();  // the stream's now
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string one = entry->d_name;
    struct stat info {};
    if (one == "." || one == "..") continue;
    if (::fstatat(fd, one.c_str(), &info, AT_SYMLINK_NOFOLLOW) == -1) continue;
    if (S_ISCHR(info.st_mode) && info.st_rdev == device) return name + "/" + one;
    if (!S_ISDIR(info.st_mode) || levels == 0) continue;
    if (auto found = find_below(fd, one, device, levels - 1)) return name + "/" + *found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_node(const std::string& folder, dev_t device) {
  return find_below(AT_FDCWD, folder, device, 2);
}

}  // namespace kfdcp
