// Uploads of pages files whose contents are in part in those of a parent, in other folders.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/pages/chain_files.h"
#include "core/transfer/transfer.h"
#include "core/wire/image_files.h"
#include "test/os/error_code.h"
#include "test/os/folder.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/sibling_image.h"

namespace kfdcp::test {
namespace {

const SiblingImage::Id kFirst{0, 0}, kSecond{0, 1};

std::string in(const Folder& folder, const SiblingImage::Id& id) {
  return folder.path() + "/" + pages_file_name(id.first, id.second);
}

void unpack(const SiblingImage& image, const Folder& folder,
            const std::vector<SiblingImage::Id>& ids) {
  for (const auto& id : ids) {
    const Bytes bytes = image.bytes(id);
    folder.write(pages_file_name(id.first, id.second),
                 {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
}

/// Three checkpoints, each in a folder of its own. The second file of the oldest has contents that
/// only the first one of its image stores.
struct Generations {
  Generations() {
    oldest.write(sibling_options(0, 0), {{1, noise(kSmallFrame, 1)}});
    oldest.write(sibling_options(0, 1), {{2, joined({noise(kSmallFrame, 1), noise(700, 2)})}});
    const auto first = oldest.reader(kSecond);
    parent.write(sibling_options(0, 1), {{2, joined({noise(kSmallFrame, 1), noise(700, 3)})}},
                 first.get());
    const auto second = parent.reader(kSecond);
    child.write(sibling_options(0, 1), contents, second.get());
    unpack(oldest, oldest_at, {kFirst, kSecond});
    unpack(parent, parent_at, {kSecond});
    unpack(child, child_at, {kSecond});
  }
  SiblingImage oldest, parent, child;
  Folder oldest_at, parent_at, child_at;
  /// A frame of the oldest image, zeros, a frame of the parent, a new one.
  const std::vector<Content> contents{
      {2, joined({noise(kSmallFrame, 1), Bytes(kSmallFrame), noise(kSmallFrame, 4)})},
      {3, noise(700, 3)}};
  std::vector<std::string> paths() const {
    return {in(child_at, kSecond), in(parent_at, kSecond), in(oldest_at, kSecond)};
  }
};

/// What the buffers of the first file have after an upload.
std::vector<Content> uploaded(const std::vector<std::string>& paths,
                              const std::vector<Content>& like) {
  std::vector<ContentBuffer> targets;
  for (const Content& content : like) {
    targets.push_back({content.id, content.bytes.size(),
                       memory_file(Bytes(content.bytes.size(), std::byte{0xa5}))});
  }
  const ChainFiles files(paths);
  const auto engine = make_cpu_engine({.slots = 3, .slot_bytes = kSmallFrame});
  TransferProgress progress;
  upload(*engine, targets, files.chain().file(), {.workers = 2}, {}, progress, &files.chain());
  std::vector<Content> out;
  for (const ContentBuffer& target : targets) {
    out.push_back({target.id, content_of(target.dmabuf.get())});
  }
  return out;
}

TEST_CASE("chain: an upload reads each frame where it is stored") {
  const Generations all;
  REQUIRE(all.child.reader(kSecond)->summary().references == 2);
  REQUIRE(all.oldest.reader(kSecond)->summary().siblings == 1);
  ChainFiles(all.paths()).chain().check();
  CHECK(uploaded(all.paths(), all.contents) == all.contents);
}

TEST_CASE("chain: what is missing or does not fit is found before an upload") {
  const Generations all;
  const auto checked = [](const std::vector<std::string>& paths) {
    return code_of([&] { ChainFiles(paths).chain().check(); });
  };
  const auto [child, parent, oldest] = std::tuple{all.paths()[0], all.paths()[1], all.paths()[2]};
  CHECK(checked({child}) == ErrorCode::corrupt);
  CHECK(checked({child, parent}) == ErrorCode::corrupt);
  CHECK(checked({child, oldest}) == ErrorCode::corrupt);
  CHECK(checked({oldest, parent}) == ErrorCode::corrupt);
  CHECK(checked({child, parent, all.oldest_at.path() + "/none"}) == ErrorCode::io);
  CHECK(code_of([&] { uploaded({child}, all.contents); }) == ErrorCode::unsupported);
  CHECK(code_of([&] { uploaded({child, parent}, all.contents); }) == ErrorCode::corrupt);
  std::filesystem::remove(in(all.oldest_at, kFirst));
  CHECK(checked(all.paths()) == ErrorCode::corrupt);
}

TEST_CASE("chain: a link is no pages file") {
  const Generations all;
  const std::string link = all.child_at.path() + "/link";
  std::filesystem::create_symlink(all.paths()[0], link);
  CHECK(code_of([&] { ChainFiles({link}); }) == ErrorCode::io);
}

}  // namespace
}  // namespace kfdcp::test
