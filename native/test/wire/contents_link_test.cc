// Pages files of a session that was killed, in a folder of their own.
#include "core/wire/contents_link.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/wire/image_files.h"
#include "core/wire/session_socket.h"
#include "test/os/folder.h"

namespace kfdcp::test {
namespace {

/// The folder of the session of this process, as if it were CRIU, with the link.
struct LinkedSession {
  explicit LinkedSession(const std::string& folder) {
    std::filesystem::remove_all(session_directory(::getpid()));
    std::filesystem::create_directories(session_directory(::getpid()));
    std::filesystem::create_symlink(folder, contents_link(::getpid()));
  }
  ~LinkedSession() { std::filesystem::remove_all(session_directory(::getpid())); }
};

TEST_CASE("contents link: leads to the files after the session's folder has gone") {
  const Folder contents;
  contents.write("amdgpu-pages-0-0000.img", "x");
  contents.write("other", "x");
  const LinkedSession session(contents.path());
  const UniqueFd folder = open_contents(::getpid());
  REQUIRE(folder);
  CHECK(remove_dead_session(::getpid()));
  CHECK_FALSE(std::filesystem::exists(session_directory(::getpid())));
  CHECK(remove_unsealed_files(folder.get()) == 1);
  CHECK(std::filesystem::exists(contents.path() + "/other"));
}

TEST_CASE("contents link: a session without one has nothing to remove") {
  const Folder contents;
  contents.write("file", "x");
  std::filesystem::remove_all(session_directory(::getpid()));
  CHECK_FALSE(open_contents(::getpid()));
  CHECK(remove_unsealed_files(open_contents(::getpid()).get()) == 0);
  const LinkedSession session(contents.path() + "/file");
  CHECK_FALSE(open_contents(::getpid()));
}

}  // namespace
}  // namespace kfdcp::test
