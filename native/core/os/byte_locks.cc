#include "core/os/byte_locks.h"

#include <fcntl.h>

#include <algorithm>
#include <functional>

#include "core/os/error.h"

namespace kfdcp {
namespace {

constexpr std::uint64_t kEnd = 1ull << 62;

}  // namespace

ByteLocks::ByteLocks(const std::string& path) : file_(path) {}

bool ByteLocks::take(std::span<const std::uint64_t> places) {
  const bool ascends = std::ranges::adjacent_find(places, std::greater_equal{}) == places.end();
  if (!ascends || (!places.empty() && places.back() >= kEnd)) {
    throw Error(ErrorCode::protocol, file_.path() + ": places of locks that do not ascend");
  }
  for (const std::uint64_t place : places) {
    if (file_.lock(F_WRLCK, place, 1)) continue;
    file_.unlock(0, kEnd);
    return false;
  }
  return true;
}

}  // namespace kfdcp
