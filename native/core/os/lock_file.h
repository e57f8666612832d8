// A file whose bytes stand for something that processes of a host share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/os/fd.h"

namespace kfdcp {

/// Locks on bytes of a file, of one open file description (F_OFD_SETLK). No process keeps account,
/// and what a killed one held is free at once. Nothing is ever written to the file.
class LockFile {
 public:
  /// Begin and end, in bytes of the file.
  using Range = std::pair<std::uint64_t, std::uint64_t>;

  /// Holds nothing yet. The file is made if it is missing. Throws Error{io}.
  explicit LockFile(const std::string& path);

  /// `type`: F_RDLCK or F_WRLCK. False when somebody else holds one of the bytes. Throws Error{io}.
  bool lock(short type, std::uint64_t begin, std::uint64_t bytes) const;
  /// Throws Error{io}.
  void unlock(std::uint64_t begin, std::uint64_t bytes) const;
  /// Some bytes from `begin` to `end` that somebody else holds: the kernel reports any lock of
  /// them, not the first one. Throws Error{io}.
  std::optional<Range> held_by_other(std::uint64_t begin, std::uint64_t end) const;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const UniqueFd file_;  // all locks go with it
};

}  // namespace kfdcp
