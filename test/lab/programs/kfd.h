// /dev/kfd and /proc, without ROCr.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/os/fd.h"

namespace lab {

/// Opens /dev/kfd. Throws Error{io}.
kfdcp::UniqueFd open_kfd();

/// "<major>.<minor>" of the KFD interface, asked on `fd`. Throws Error{gpu}.
std::string kfd_version(int fd);

/// One line of /proc/self/maps.
struct MapEntry {
  std::uintptr_t begin, end;
  bool readable;
  std::string path;  // may be empty
};

/// This process' mappings, by rising address. Throws Error{io}.
std::vector<MapEntry> self_maps();

/// Whether `entry` maps a BO through a render node.
bool is_render_map(const MapEntry& entry);

}  // namespace lab
