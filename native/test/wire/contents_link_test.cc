// Pages files of a session that was killed, in a folder of their own.
#include "core/wire/contents_link.h"

#include <doctest/doctest.h>
#include <fcntl.h>
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

TEST_CASE("contents link: contents of a sealed image stay, and go with it") {
  const Folder image, contents;
  const std::string pages = contents.path() + "/amdgpu-pages-0-0000.img";
  contents.write("amdgpu-pages-0-0000.img", "x");
  image.write(kManifestName, "{}");
  const UniqueFd directory(::open(image.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd folder(::open(contents.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(remove_unsealed_files(directory.get(), folder.get()) == 0);
  CHECK(std::filesystem::exists(pages));
  CHECK(remove_image_files(directory.get(), folder.get()) == 2);
  CHECK_FALSE(std::filesystem::exists(pages));
  contents.write("amdgpu-pages-0-0000.img", "x");
  CHECK(remove_unsealed_files(directory.get(), folder.get()) == 1);
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
