// Uploads of pages files that name contents of other files of their image.
#include <doctest/doctest.h>

#include <filesystem>
#include <initializer_list>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/pages/pages_chain.h"
#include "core/transfer/transfer.h"
#include "core/wire/image_files.h"
#include "test/os/error_code.h"
#include "test/os/folder.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/sibling_replicas.h"

namespace kfdcp::test {
namespace {

/// The files of `image` in a folder, by their names.
void unpack(const SiblingImage& image, const Folder& folder,
            std::initializer_list<SiblingImage::Id> ids) {
  for (const auto& id : ids) {
    const Bytes bytes = image.bytes(id);
    folder.write(pages_file_name(id.first, id.second),
                 {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
}

TEST_CASE("siblings: an upload reads them where they are") {
  Replicas both;
  // Small buffers of both files share slots.
  const std::vector<Content> mixed{{1, noise(4096, 21)},
                                   {2, noise(700, 2)},
                                   {3, noise(4096, 22)},
                                   {4, Bytes(4096)},
                                   {5, noise(4096, 23)}};
  both.image.write(sibling_options(7, 0, Compress::zstd), mixed);
  const Folder folder;
  unpack(both.image, folder, {kFirst, kSecond, kThird});
  const auto upload_all = [&](const SiblingImage::Id& id, const std::vector<Content>& expected,
                              SiblingFiles* siblings) {
    std::vector<ContentBuffer> targets;
    for (const Content& content : expected) {
      targets.push_back({content.id, content.bytes.size(),
                         memory_file(Bytes(content.bytes.size(), std::byte{0xa5}))});
    }
    const auto in = both.image.reader(id);
    const auto engine = make_cpu_engine({.slots = 3, .slot_bytes = kSmallFrame});
    TransferProgress progress;
    const FrameChain chain({{in.get(), siblings}});
    upload(*engine, targets, *in, {.workers = 2}, {}, progress, siblings ? &chain : nullptr);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      CAPTURE(i);
      CHECK(content_of(targets[i].dmabuf.get()) == expected[i].bytes);
    }
  };
  SiblingFiles siblings(siblings_in(folder.path()));
  upload_all(kSecond, both.replica, &siblings);
  upload_all(kThird, mixed, &siblings);
  CHECK(code_of([&] { upload_all(kSecond, both.replica, nullptr); }) == ErrorCode::unsupported);
  std::filesystem::remove(folder.path() + "/" + pages_file_name(0, 0));
  SiblingFiles fewer(siblings_in(folder.path()));
  CHECK(code_of([&] { upload_all(kSecond, both.replica, &fewer); }) == ErrorCode::corrupt);
}

}  // namespace
}  // namespace kfdcp::test
