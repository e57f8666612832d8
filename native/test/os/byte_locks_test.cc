#include "core/os/byte_locks.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>

#include "core/os/error.h"
#include "test/os/child_process.h"
#include "test/os/error_code.h"
#include "test/os/folder.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

template <std::size_t N>
using Places = std::array<std::uint64_t, N>;

}  // namespace

TEST_CASE("byte locks: each place has one holder, until that is gone") {
  const Folder folder;
  const std::string path = folder.path() + "/locks";
  {
    ByteLocks one(path);
    CHECK(one.take(Places<2>{3, 1ull << 43}));
    CHECK(one.take(Places<1>{3}));  // its own
    ByteLocks other(path);
    CHECK_FALSE(other.take(Places<1>{1ull << 43}));
    CHECK(other.take(Places<2>{2, 4}));
  }
  ByteLocks next(path);
  CHECK(next.take(Places<4>{2, 3, 4, 1ull << 43}));
  struct stat st {};
  REQUIRE(::stat(path.c_str(), &st) == 0);
  CHECK(st.st_size == 0);
  CHECK((st.st_mode & 0777) == 0600);
}

TEST_CASE("byte locks: whoever cannot have all has none") {
  const Folder folder;
  const std::string path = folder.path() + "/locks";
  ByteLocks one(path);
  REQUIRE(one.take(Places<1>{7}));
  ByteLocks refused(path);
  CHECK_FALSE(refused.take(Places<3>{5, 7, 9}));
  ByteLocks third(path);
  CHECK(third.take(Places<2>{5, 9}));
}

TEST_CASE("byte locks: what a killed process held is free") {
  const Folder folder;
  const std::string path = folder.path() + "/locks";
  Child holder([&] {
    static ByteLocks locks(path);
    if (!locks.take(Places<1>{7})) ::_exit(1);
  });
  ByteLocks mine(path);
  CHECK_FALSE(mine.take(Places<1>{7}));
  holder.end();
  CHECK(mine.take(Places<1>{7}));
}

TEST_CASE("byte locks: places that do not ascend, and no file, are refused") {
  const Folder folder;
  const std::string path = folder.path() + "/locks";
  ByteLocks locks(path);
  CHECK(code_of([&] { locks.take(Places<2>{2, 1}); }) == ErrorCode::protocol);
  CHECK(code_of([&] { locks.take(Places<2>{2, 2}); }) == ErrorCode::protocol);
  CHECK(code_of([&] { locks.take(Places<1>{1ull << 62}); }) == ErrorCode::protocol);
  CHECK(code_of([&] { ByteLocks(folder.path() + "/none/locks"); }) == ErrorCode::io);
  CHECK(locks.take(Places<0>{}));
}
