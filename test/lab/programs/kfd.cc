#include "kfd.h"

#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <sys/ioctl.h>

#include <fstream>
#include <sstream>

#include "core/os/error.h"

namespace lab {

kfdcp::UniqueFd open_kfd() {
  kfdcp::UniqueFd fd(open("/dev/kfd", O_RDWR | O_CLOEXEC));
  if (!fd) throw kfdcp::io_error("/dev/kfd");
  return fd;
}

std::string kfd_version(int fd) {
  kfd_ioctl_get_version_args version{};
  if (ioctl(fd, AMDKFD_IOC_GET_VERSION, &version) != 0) {
    throw kfdcp::Error(kfdcp::ErrorCode::gpu, kfdcp::io_error("KFD GET_VERSION").what(), errno);
  }
  return std::to_string(version.major_version) + "." + std::to_string(version.minor_version);
}

std::vector<MapEntry> self_maps() {
  std::ifstream maps("/proc/self/maps");
  if (!maps) throw kfdcp::io_error("/proc/self/maps");
  std::vector<MapEntry> entries;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    MapEntry entry{};
    char dash = 0;
    std::string mode, offset, device, inode;
    words >> std::hex >> entry.begin >> dash >> entry.end >> mode >> offset >> device >> inode;
    std::getline(words >> std::ws, entry.path);
    entry.readable = mode.starts_with('r');
    entries.push_back(std::move(entry));
  }
  return entries;
}

bool is_render_map(const MapEntry& entry) { return entry.path.starts_with("/dev/dri/renderD"); }

}  // namespace lab
