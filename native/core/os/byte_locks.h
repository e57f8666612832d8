// What processes of a host hold each for itself, as locks on bytes of a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/os/fd.h"

namespace kfdcp {

/// Locks on bytes of a file, of one open file description (F_OFD_SETLK). No process keeps account,
/// and what a killed one held is free at once. Nothing is ever written to the file.
class ByteLocks {
 public:
  /// Holds nothing yet. The file is made if it is missing. Throws Error{io}.
  explicit ByteLocks(const std::string& path);

  /// Locks these bytes, or none: false when somebody else holds one. `places` must ascend, so that
  /// of those who want the same bytes at the same time one gets them. Each is below 2^62. Throws
  /// Error{io}, Error{protocol} for places in another order.
  bool take(std::span<const std::uint64_t> places);

 private:
  const std::string path_;
  const UniqueFd file_;  // all locks go with it
};

}  // namespace kfdcp
