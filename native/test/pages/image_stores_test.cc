// The contents of an image in stores.
#include "core/pages/image_stores.h"

#include <doctest/doctest.h>

#include <limits>
#include <memory>

#include "core/pages/pages_sink.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_util.h"
#include "test/pages/sibling_image.h"

namespace kfdcp::test {
namespace {

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
constexpr SiblingImage::Id kPages{0, 0}, kOther{0, 1}, kStore{0, kFirstStore},
    kNext{0, kFirstStore + 1};

/// The files of an image, open for ImageStores.
struct Opened {
  Opened(const SiblingImage& image, const std::vector<SiblingImage::Id>& ids) {
    for (const auto& id : ids) {
      readers.push_back(image.reader(id));
      siblings.push_back(std::make_unique<SiblingFiles>(image.opener()));
    }
  }
  std::vector<ChainFile> chain() const {
    std::vector<ChainFile> files;
    for (std::size_t i = 0; i < readers.size(); ++i) {
      files.emplace_back(readers[i].get(), siblings[i].get());
    }
    return files;
  }
  std::vector<decltype(std::declval<SiblingImage>().reader(kPages))> readers;
  std::vector<std::unique_ptr<SiblingFiles>> siblings;
};

Bytes store_of(ImageStores& stores, std::uint32_t ordinal, std::uint64_t most = kAll) {
  const UniqueFd fd = memory_file();
  REQUIRE(stores.write_store(file_sink(fd.get()), ordinal, most));
  return content_of(fd.get());
}

Bytes file_of(ImageStores& stores, std::size_t index) {
  const UniqueFd fd = memory_file();
  stores.write_file(index, fd.get());
  return content_of(fd.get());
}

/// Two files that share contents; the second ends with a short frame.
struct Sample {
  Sample() {
    image.write(sibling_options(0, 0, Compress::lz4), first);
    image.write(sibling_options(0, 1), second);
  }
  const Bytes zeros = Bytes(kSmallFrame), a = noise(kSmallFrame, 1), b = text(kSmallFrame, 2),
              c = noise(700, 3);
  const std::vector<Content> first{{1, joined({a, zeros, b, a})}}, second{{7, joined({b, c})}};
  SiblingImage image;
};

TEST_CASE("stores: each content is in one of them, and the files have none") {
  const Sample sample;
  const Opened opened(sample.image, {kPages, kOther});
  ImageStores stores(opened.chain(), {});
  CHECK(stores.uses().empty());
  CHECK(stores.missing() > kSmallFrame);
  SiblingImage made;
  made.put(kStore, store_of(stores, kFirstStore));
  CHECK(stores.missing() == 0);
  made.put(kPages, file_of(stores, 0));
  made.put(kOther, file_of(stores, 1));
  CHECK(made.problems().empty());
  CHECK(made.read(kPages) == sample.first);
  CHECK(made.read(kOther) == sample.second);
  CHECK(made.bytes(kPages).size() < 8192);
  const auto store = made.reader(kStore);
  CHECK(store->summary().frames == 3);
  CHECK(store->summary().siblings == 0);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(store->buffers()[i].id == i);
}

TEST_CASE("stores: nothing is left, or not all is written yet") {
  const Sample sample;
  const Opened opened(sample.image, {kPages, kOther});
  ImageStores stores(opened.chain(), {});
  const UniqueFd fd = memory_file();
  CHECK(code_of([&] { stores.write_file(0, fd.get()); }) == ErrorCode::protocol);
  store_of(stores, kFirstStore);
  CHECK(!stores.write_store(file_sink(fd.get()), kFirstStore + 1, kAll));
}

TEST_CASE("stores: the bytes follow from the contents, not from where the image has them") {
  const Bytes a = noise(kSmallFrame, 1), b = noise(kSmallFrame, 2), zeros(kSmallFrame);
  const auto store = [](const std::vector<Content>& contents) {
    SiblingImage image;
    image.write(sibling_options(0, 0), contents);
    const Opened opened(image, {kPages});
    ImageStores stores(opened.chain(), {});
    return store_of(stores, kFirstStore);
  };
  const Bytes expected = store({{1, joined({a, b})}});
  CHECK(store({{5, a}, {9, joined({zeros, a, b})}}) == expected);
  CHECK(store({{1, joined({b, a})}}) != expected);
}

TEST_CASE("stores: as many as asked for, with contents in the order of the image") {
  const Sample sample;
  const Opened opened(sample.image, {kPages, kOther});
  ImageStores stores(opened.chain(), {});
  SiblingImage made;
  made.put(kStore, store_of(stores, kFirstStore, 1));
  made.put(kNext, store_of(stores, kFirstStore + 1));
  made.put(kPages, file_of(stores, 0));
  made.put(kOther, file_of(stores, 1));
  CHECK(made.reader(kStore)->summary().frames == 1);
  CHECK(made.reader(kNext)->summary().frames == 2);
  CHECK(made.problems().empty());
  CHECK(made.read(kPages) == sample.first);
  CHECK(made.read(kOther) == sample.second);
}

TEST_CASE("stores: what an earlier image has is taken from there") {
  const Sample sample;
  const Opened opened(sample.image, {kPages, kOther});
  ImageStores before(opened.chain(), {});
  SiblingImage made;
  made.put(kStore, store_of(before, kFirstStore));
  const auto known = made.reader(kStore);

  const Bytes d = noise(kSmallFrame, 9);
  const std::vector<Content> now{{1, joined({sample.a, d, sample.c})}};
  SiblingImage later;
  later.write(sibling_options(0, 0), now);
  const Opened opened_later(later, {kPages});
  ImageStores stores(opened_later.chain(), {known.get()});
  REQUIRE(stores.uses().size() == 1);
  CHECK(stores.uses()[0].live == kSmallFrame + 700);
  CHECK(stores.uses()[0].stored > stores.uses()[0].live);
  CHECK(stores.missing() == kSmallFrame);
  made.put(kNext, store_of(stores, kFirstStore + 1));
  made.put(kPages, file_of(stores, 0));
  CHECK(made.reader(kNext)->summary().frames == 1);
  CHECK(made.problems().empty());
  CHECK(made.read(kPages) == now);
}

TEST_CASE("stores: a damaged frame, and a file without digests") {
  Sample sample;
  const std::uint64_t at = sample.image.reader(kPages)->frame(0).offset;
  Bytes bytes = sample.image.bytes(kPages);
  bytes[at] ^= std::byte{1};
  sample.image.put(kPages, bytes);
  const Opened opened(sample.image, {kPages});
  ImageStores stores(opened.chain(), {});
  const UniqueFd out = memory_file();
  CHECK(code_of([&] { stores.write_store(file_sink(out.get()), kFirstStore, kAll); }) ==
        ErrorCode::corrupt);

  SiblingImage plain;
  PagesOptions options = sibling_options(0, 0);
  options.share = false;
  const UniqueFd fd = memory_file();
  write_pages(fd.get(), options, {{1, sample.a}});
  plain.put(kPages, content_of(fd.get()));
  const Opened unknown(plain, {kPages});
  CHECK(code_of([&] { ImageStores(unknown.chain(), {}); }) == ErrorCode::unsupported);
}

}  // namespace
}  // namespace kfdcp::test
