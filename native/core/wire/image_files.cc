#include "core/wire/image_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/os/fd.h"

namespace kfdcp {

namespace {

/// Takes `text` from the front of `name`.
bool take(std::string_view& name, std::string_view text) {
  if (!name.starts_with(text)) return false;
  name.remove_prefix(text.size());
  return true;
}

/// Takes one digit or more.
bool take_number(std::string_view& name) {
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  name.remove_prefix(digits);
  return digits > 0;
}

bool take_hex4(std::string_view& name) {
  constexpr std::string_view hex = "0123456789abcdef";
  if (name.size() < 4 || name.substr(0, 4).find_first_not_of(hex) != name.npos) return false;
  name.remove_prefix(4);
  return true;
}

bool is_state(std::string_view name) {
  return (take(name, "kfd-state-") || take(name, "render-state-")) && take_number(name) &&
         name == ".img";
}

bool is_pages(std::string_view name) {
  return take(name, "amdgpu-pages-") && take_number(name) && take(name, "-") && take_hex4(name) &&
         name == ".img";
}

bool is_temporary_manifest(std::string_view name) {
  return take(name, ".") && take(name, kManifestName) && take(name, ".") && take_number(name) &&
         name == ".tmp";
}

std::vector<std::string> unsealed_names(int directory_fd) {
  std::vector<std::string> names;
  // Its own open file: reading would move the position of a shared one.
  UniqueFd fd(::openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
  if (!directory) return names;
  fd.release();
  while (const dirent* entry = ::readdir(directory.get())) {
    if (is_unsealed_name(entry->d_name)) names.emplace_back(entry->d_name);
  }
  return names;
}

}  // namespace

bool is_unsealed_name(std::string_view name) {
  return is_state(name) || is_pages(name) || is_temporary_manifest(name);
}

std::string pages_file_name(std::uint32_t process, std::uint32_t gpu) {
  char name[64];
  std::snprintf(name, sizeof(name), "amdgpu-pages-%u-%04x.img", process, gpu);
  return name;
}

std::size_t remove_unsealed_files(int directory_fd, int contents_fd) {
  if (has_manifest(directory_fd)) return 0;
  std::size_t removed = 0;
  for (const std::string& name : unsealed_names(directory_fd)) {
    struct stat info {};
    const bool file = ::fstatat(directory_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                      S_ISREG(info.st_mode);
    if (file && ::unlinkat(directory_fd, name.c_str(), 0) == 0) ++removed;
  }
  return contents_fd < 0 ? removed : removed + remove_unsealed_files(contents_fd);
}

std::size_t remove_image_files(int directory_fd, int contents_fd) {
  const bool removed = ::unlinkat(directory_fd, kManifestName, 0) == 0;
  return remove_unsealed_files(directory_fd, contents_fd) + (removed ? 1 : 0);
}

bool has_manifest(int directory_fd) {
  return ::faccessat(directory_fd, kManifestName, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
         errno != ENOENT;
}

}  // namespace kfdcp
