// A buffer that two processes share.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "core/os/fd.h"
#include "selftest/contents.h"
#include "selftest/part.h"

namespace kfdcp::selftest {

/// The other process. It must be started before this one opens /dev/kfd: KFD knows a process by its
/// address space, and a child has a copy of it.
class Partner {
 public:
  /// Throws Error{io}. The child never returns: it ends when this object does.
  Partner(const Places& places, unsigned minor, std::uint64_t seed);
  ~Partner();
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;

  /// Gives it a buffer of `bytes` bytes.
  void give(int dmabuf, std::uint64_t bytes) const;
  /// It compares the contents of `generation`, and writes those of the next one. Throws
  /// Error{corrupt} with its words, Error{gpu} when it is gone.
  void advance(std::uint64_t generation) const;

 private:
  UniqueFd socket_;
  pid_t child_ = -1;
};

/// VRAM that the partner has imported.
class Shared : public Part {
 public:
  Shared(Gpu& gpu, Mover& mover, const Partner& partner, std::uint64_t seed);

  std::string name() const override { return "shared"; }
  void verify() override;

 private:
  Mover& mover_;
  const Partner& partner_;
  const std::uint64_t seed_;
  std::uint64_t generation_ = 0;
  Buffer buffer_;
};

}  // namespace kfdcp::selftest
