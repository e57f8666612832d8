// Files that a killed session leaves in an image directory, beside files of others.
#include "core/wire/image_files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <set>

#include "core/os/fd.h"
#include "test/os/folder.h"

namespace kfdcp::test {
namespace {

const std::set<std::string> kOurs = {"kfd-state-0.img",          "kfd-state-4095.img",
                                     "render-state-12.img",      "amdgpu-pages-0-0000.img",
                                     "amdgpu-pages-12-00ff.img", ".kfd-manifest.json.4711.tmp"};
const std::set<std::string> kOthers = {"pages-1.img",
                                       "inventory.img",
                                       "kfd-state-.img",
                                       "kfd-state-0.img.bak",
                                       "kfd-state-0x.img",
                                       "kfd-state-0",
                                       "xkfd-state-0.img",
                                       "amdgpu-pages-0.img",
                                       "amdgpu-pages-0-000.img",
                                       "amdgpu-pages-0-00000.img",
                                       "amdgpu-pages-0-00FF.img",
                                       "amdgpu-pages--0000.img",
                                       "amdgpu-renderD128-0.img",
                                       ".kfd-manifest.json.tmp",
                                       ".kfd-manifest.json.x.tmp",
                                       "kfd-manifest.json.1.tmp",
                                       "dump.log"};

std::set<std::string> names_in(const Folder& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.insert(entry.path().filename());
  }
  return names;
}

std::size_t remove_in(const Folder& folder) {
  const UniqueFd directory(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::size_t removed = remove_unsealed_files(directory.get());
  CHECK(::fcntl(directory.get(), F_GETFD) != -1);
  return removed;
}

}  // namespace

TEST_CASE("image files: what was never sealed goes, every other file stays") {
  const Folder folder;
  for (const std::string& name : kOurs) folder.write(name, "x");
  for (const std::string& name : kOthers) folder.write(name, "x");
  CHECK(remove_in(folder) == kOurs.size());
  CHECK(names_in(folder) == kOthers);
  CHECK(remove_in(folder) == 0);
}

TEST_CASE("image files: a sealed image is never touched") {
  const Folder folder;
  for (const std::string& name : kOurs) folder.write(name, "x");
  SUBCASE("its manifest is a file") { folder.write(kManifestName, "{}"); }
  SUBCASE("its manifest is a link that leads nowhere") {
    std::filesystem::create_symlink("/nowhere", folder.path() + "/" + kManifestName);
  }
  CHECK(remove_in(folder) == 0);
  CHECK(names_in(folder).size() == kOurs.size() + 1);
}

TEST_CASE("image files: the image of a failed checkpoint goes with its manifest") {
  const Folder folder;
  for (const std::string& name : kOurs) folder.write(name, "x");
  for (const std::string& name : kOthers) folder.write(name, "x");
  folder.write(kManifestName, "{}");
  const UniqueFd directory(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(has_manifest(directory.get()));
  CHECK(remove_image_files(directory.get()) == kOurs.size() + 1);
  CHECK(names_in(folder) == kOthers);
  CHECK_FALSE(has_manifest(directory.get()));
}

TEST_CASE("image files: only files are removed, and none through a link") {
  const Folder folder, elsewhere;
  elsewhere.write("precious", "x");
  std::filesystem::create_symlink(elsewhere.path() + "/precious",
                                  folder.path() + "/kfd-state-0.img");
  folder.write("kfd-state-1.img/inside", "x");
  CHECK(remove_in(folder) == 0);
  CHECK(names_in(folder) == std::set<std::string>{"kfd-state-0.img", "kfd-state-1.img"});
  CHECK(names_in(elsewhere).size() == 1);
}

TEST_CASE("image files: without a directory nothing is removed") {
  CHECK(remove_unsealed_files(-1) == 0);
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(remove_unsealed_files(file.get()) == 0);
}

}  // namespace kfdcp::test
