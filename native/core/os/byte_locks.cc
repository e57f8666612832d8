#include "core/os/byte_locks.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "core/os/error.h"

namespace kfdcp {
namespace {

constexpr std::uint64_t kEnd = 1ull << 62;

UniqueFd open_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw io_error(path);
  return file;
}

int set_lock(int fd, short type, std::uint64_t begin, std::uint64_t bytes) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(begin);
  lock.l_len = static_cast<off_t>(bytes);
  return ::fcntl(fd, F_OFD_SETLK, &lock);
}

}  // namespace

ByteLocks::ByteLocks(const std::string& path) : path_(path), file_(open_file(path)) {}

bool ByteLocks::take(std::span<const std::uint64_t> places) {
  const bool ascends = std::ranges::adjacent_find(places, std::greater_equal{}) == places.end();
  if (!ascends || (!places.empty() && places.back() >= kEnd)) {
    throw Error(ErrorCode::protocol, path_ + ": places of locks that do not ascend");
  }
  for (const std::uint64_t place : places) {
    if (set_lock(file_.get(), F_WRLCK, place, 1) == 0) continue;
    const int err = errno;
    if (set_lock(file_.get(), F_UNLCK, 0, kEnd) != 0) throw io_error(path_);
    if (err == EAGAIN || err == EACCES) return false;
    throw Error(ErrorCode::io, path_ + ": cannot be locked", err);
  }
  return true;
}

}  // namespace kfdcp
