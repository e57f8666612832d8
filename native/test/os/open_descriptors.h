// Counting descriptors, for tests that look for leaks.
#pragma once

#include <dirent.h>

#include <cstddef>

namespace kfdcp::test {

/// Descriptors this process has open, without the one that counts them.
inline std::size_t open_descriptors() {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  std::size_t count = 0;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] != '.') ++count;
  }
  ::closedir(directory);
  return count - 1;
}

}  // namespace kfdcp::test
