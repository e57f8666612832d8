// What processes of a host hold each for itself, as locks on bytes of a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/os/lock_file.h"

namespace kfdcp {

/// Bytes of a LockFile, all or none.
class ByteLocks {
 public:
  /// Holds nothing yet. The file is made if it is missing. Throws Error{io}.
  explicit ByteLocks(const std::string& path);

  /// Locks these bytes, or none: false when somebody else holds one. `places` must ascend, so that
  /// of those who want the same bytes at the same time one gets them. Each is below 2^62. Throws
  /// Error{io}, Error{protocol} for places in another order.
  bool take(std::span<const std::uint64_t> places);

 private:
  const LockFile file_;
};

}  // namespace kfdcp
