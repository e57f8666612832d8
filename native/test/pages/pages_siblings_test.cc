// Contents that are stored once in the pages files of an image.
#include <doctest/doctest.h>

#include <barrier>
#include <thread>

#include "core/pages/pages_chain.h"
#include "core/pages/pages_check.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_util.h"
#include "test/pages/sibling_replicas.h"

namespace kfdcp::test {
namespace {

TEST_CASE("siblings: what one file has the other only names") {
  const Replicas both;
  CHECK(both.first.siblings == 0);
  CHECK(both.second.siblings == 4);
  CHECK(both.second.references == 0);
  CHECK(both.first.file_bytes > 3 * kSmallFrame);
  CHECK(both.second.file_bytes < kSmallFrame + 20000);
  for (const auto& id : {kFirst, kSecond}) check_sound(both.image, id);
  CHECK(both.image.read(kFirst) == both.weights);
  CHECK(both.image.read(kSecond) == both.replica);
  CHECK(both.image.problems().empty());
  const auto second = both.image.reader(kSecond);
  CHECK(second->frame(0).codec == Codec::sibling);
  CHECK(SiblingFrame::unpacked(second->frame(0).offset).frame == 4);
  Bytes out(700);
  CHECK(code_of([&] { second->read_frame(0, out); }) == ErrorCode::unsupported);
}

TEST_CASE(
    "siblings: a file of its own has no feature for them, one with siblings cannot be misread") {
  const UniqueFd alone = memory_file();
  write_pages(alone.get(), sibling_options(0, 0), {{1, noise(64, 1)}});
  const auto features = [](const Bytes& file) {
    return block_at<layout::Header>(file, 0).required_features;
  };
  CHECK((features(content_of(alone.get())) & layout::kSiblings) == 0);
  CHECK((features(Replicas().image.bytes(kSecond)) & layout::kSiblings) != 0);
}

TEST_CASE("siblings: frames of whatever codec, compressed once") {
  for (const Compress compress : {Compress::lz4, Compress::zstd}) {
    SiblingImage image;
    const std::vector<Content> buffers{{1, joined({text(kSmallFrame, 1), halves(kSmallFrame, 2)})}};
    image.write(sibling_options(0, 0, compress), buffers);
    const PagesSummary other = image.write(sibling_options(3, 2, Compress::none), buffers);
    CHECK(other.siblings == 2);
    CHECK(other.file_bytes < 10000);
    CHECK(image.read({3, 2}) == buffers);
  }
}

TEST_CASE("siblings: files written at once store each content once, and there are no chains") {
  constexpr std::uint32_t kCount = 24;
  constexpr std::uint32_t kWriters = 3;
  std::vector<Content> contents_of[kWriters];
  for (std::uint32_t w = 0; w < kWriters; ++w) {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      // Each begins at another place, so that all of them find each other's frames.
      const std::uint32_t seed = (i + w * kCount / kWriters) % kCount;
      contents_of[w].push_back({i, noise(8192, seed)});
    }
  }
  SiblingImage image;
  UniqueFd files[kWriters];
  std::barrier start(kWriters);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t w = 0; w < kWriters; ++w) {
      files[w] = memory_file();
      threads.emplace_back([&, w] {
        const PagesOptions options = sibling_options(w, 0);
        PagesWriter writer(files[w].get(), options, nullptr, image.frames.get());
        start.arrive_and_wait();
        write_buffers(writer, options, contents_of[w]);
      });
    }
  }
  std::uint64_t siblings = 0;
  for (std::uint32_t w = 0; w < kWriters; ++w) image.put({w, 0}, content_of(files[w].get()));
  for (std::uint32_t w = 0; w < kWriters; ++w) {
    CHECK(image.read({w, 0}) == contents_of[w]);
    siblings += image.reader({w, 0})->summary().siblings;
  }
  CHECK(siblings == kCount * (kWriters - 1));
  CHECK(image.problems().empty());
}

TEST_CASE("siblings: a writer with an image needs digests, and ordinals that fit") {
  ImageFrames frames;
  const UniqueFd fd = memory_file();
  PagesOptions plain = sibling_options(0, 0);
  plain.share = false;
  CHECK(code_of([&] { PagesWriter(fd.get(), plain, nullptr, &frames); }) == ErrorCode::protocol);
  for (const auto& [process, gpu] : {SiblingImage::Id{0x10000, 0}, SiblingImage::Id{0, 0x10000}}) {
    const PagesOptions far = sibling_options(process, gpu);
    CHECK(code_of([&] { PagesWriter(fd.get(), far, nullptr, &frames); }) == ErrorCode::protocol);
  }
}

TEST_CASE("siblings: parents whose frames are in their siblings, and siblings of a delta") {
  const Bytes a = text(kSmallFrame, 1), b = noise(kSmallFrame, 2), c = noise(900, 3),
              d = noise(kSmallFrame, 4);
  SiblingImage base;
  base.write(sibling_options(0, 0, Compress::lz4), {{1, joined({a, b})}});
  base.write(sibling_options(0, 1), {{2, joined({a, b, c})}});
  const auto base_first = base.reader(kFirst), base_second = base.reader(kSecond);
  CHECK(base_second->summary().siblings == 2);

  SiblingImage delta;
  const std::vector<Content> first{{1, joined({a, d})}}, second{{2, joined({b, d, c})}};
  delta.write(sibling_options(0, 0), first, base_first.get());
  const PagesSummary summary = delta.write(sibling_options(0, 1), second, base_second.get());
  CHECK(summary.references == 2);
  CHECK(summary.siblings == 1);
  CHECK(summary.file_bytes < 10000);
  CHECK(delta.problems().empty());
  for (const auto& id : {kFirst, kSecond}) check_sound(delta, id);

  const auto flat = [&](const SiblingImage::Id& id, ImageFrames* frames) {
    const auto file = delta.reader(id), parent = base.reader(id);
    SiblingFiles siblings(delta.opener()), parents(base.opener());
    const UniqueFd out = memory_file();
    const PagesSummary made =
        flatten_pages({{file.get(), &siblings}, {parent.get(), &parents}}, out.get(), {}, frames);
    CHECK(made.references == 0);
    return content_of(out.get());
  };
  // Written separately, each stores all its contents.
  SiblingImage alone;
  alone.put(kSecond, flat(kSecond, nullptr));
  CHECK(alone.read(kSecond) == second);
  CHECK(alone.reader(kSecond)->summary().siblings == 0);
  // Together each content is stored once, whichever comes first.
  for (const bool reversed : {false, true}) {
    SiblingImage whole;
    const auto put = [&](const SiblingImage::Id& id) {
      whole.put(id, flat(id, whole.frames.get()));
    };
    put(reversed ? kSecond : kFirst);
    put(reversed ? kFirst : kSecond);
    CHECK(whole.read(kFirst) == first);
    CHECK(whole.read(kSecond) == second);
    CHECK(whole.problems().empty());
    CHECK(whole.reader(kFirst)->summary().siblings + whole.reader(kSecond)->summary().siblings ==
          1);
    for (const auto& id : {kFirst, kSecond}) check_sound(whole, id);
  }
  const auto lost = delta.reader(kSecond), parent = base.reader(kSecond);
  const UniqueFd out = memory_file();
  CHECK(code_of([&] {
          flatten_pages({lost.get(), parent.get()}, out.get());
        }) == ErrorCode::corrupt);
}

}  // namespace
}  // namespace kfdcp::test
