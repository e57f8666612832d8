#include "core/os/lock_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "core/os/error.h"

namespace kfdcp {
namespace {

struct flock lock_of(short type, std::uint64_t begin, std::uint64_t bytes) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(begin);
  lock.l_len = static_cast<off_t>(bytes);
  return lock;
}

UniqueFd open_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw io_error(path);
  return file;
}

}  // namespace

LockFile::LockFile(const std::string& path) : path_(path), file_(open_file(path)) {}

bool LockFile::lock(short type, std::uint64_t begin, std::uint64_t bytes) const {
  struct flock wanted = lock_of(type, begin, bytes);
  if (::fcntl(file_.get(), F_OFD_SETLK, &wanted) == 0) return true;
  if (errno != EAGAIN && errno != EACCES) throw io_error(path_);
  return false;
}

void LockFile::unlock(std::uint64_t begin, std::uint64_t bytes) const {
  struct flock mine = lock_of(F_UNLCK, begin, bytes);
  if (::fcntl(file_.get(), F_OFD_SETLK, &mine) != 0) throw io_error(path_);
}

std::optional<LockFile::Range> LockFile::held_by_other(std::uint64_t begin,
                                                       std::uint64_t end) const {
  struct flock found = lock_of(F_WRLCK, begin, end - begin);
  if (::fcntl(file_.get(), F_OFD_GETLK, &found) != 0) throw io_error(path_);
  if (found.l_type == F_UNLCK) return std::nullopt;
  const std::uint64_t first = std::max(begin, static_cast<std::uint64_t>(found.l_start));
  const std::uint64_t last =
      found.l_len == 0 ? end
                       : std::min(end, static_cast<std::uint64_t>(found.l_start + found.l_len));
  return Range{first, last};
}

}  // namespace kfdcp
