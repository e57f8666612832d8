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
      // Each begins elsewhere, so that all of them find and are found.
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

/// The second file's first record changed by `change`; whether both readers refuse the file.
template <typename Change>
bool refused(Change&& change, ErrorCode code = ErrorCode::corrupt) {
  const Bytes file = Replicas().image.bytes(kSecond);
  const Bytes bad = forged<layout::FrameRecord>(file, Anatomy(file).records, change);
  const UniqueFd fd = memory_file(bad);
  const auto stream = [&] {
    PagesStreamCheck check;
    check.feed(bad);
    check.finish();
  };
  return code_of([&] { PagesReader reader(fd.get()); }) == code && code_of(stream) == code;
}

TEST_CASE("siblings: what no writer writes is refused") {
  using R = layout::FrameRecord;
  CHECK(refused([](R& r) { r.stored = 1; }));
  CHECK(refused([](R& r) { r.offset = SiblingFrame{0, 0, 1u << 22}.packed(); }));
  CHECK(refused([](R& r) { r.offset = SiblingFrame{0, 1, 1}.packed(); }));  // of itself
  CHECK(refused([](R& r) { std::fill_n(r.digest, 32, 0); }));
  CHECK(refused([](R& r) { r.codec = static_cast<std::uint8_t>(Codec::reference); }));
  CHECK(refused([](R& r) { r.codec = 7; }));
  const Bytes file = Replicas().image.bytes(kSecond);
  const Anatomy at(file);
  const auto opens = [](const Bytes& bytes) {
    const UniqueFd fd = memory_file(bytes);
    return code_of([&] { PagesReader reader(fd.get()); });
  };
  using H = layout::Header;
  CHECK(opens(forged<H>(file, 0, [](H& h) { h.required_features &= ~layout::kSiblings; })) ==
        ErrorCode::corrupt);
  CHECK(opens(forged<H>(file, 0, [](H& h) { h.optional_features = 0; })) == ErrorCode::corrupt);
  CHECK(opens(forged<H>(file, 0, [](H& h) { h.digest_algorithm = 2; })) == ErrorCode::corrupt);
  using I = layout::IndexHeader;
  for (const std::uint32_t count : {0u, 3u, 5u, 6u, 0xffffffffu}) {
    CHECK(opens(forged<I>(file, at.index, [&](I& i) { i.siblings = count; })) ==
          ErrorCode::corrupt);
  }
}

/// What is wrong with the image of `both` is found by its indexes, and where it would be read.
void check_unsound(const SiblingImage& image, const std::string& reason) {
  CAPTURE(reason);
  const auto problems = image.problems();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].process == 0);
  CHECK(problems[0].gpu == 1);
  CHECK(problems[0].reason.find(reason) != std::string::npos);
  CHECK(code_of([&] { image.read(kSecond); }) == ErrorCode::corrupt);
  const auto second = image.reader(kSecond);
  SiblingFiles siblings(image.opener());
  const UniqueFd out = memory_file();
  CHECK(code_of([&] {
          flatten_pages({{second.get(), &siblings}}, out.get());
        }) == ErrorCode::corrupt);
}

TEST_CASE("siblings: what is not in the other file is refused, whatever is wrong with it") {
  using R = layout::FrameRecord;
  const auto with_place = [](const SiblingFrame& place) {
    Replicas both;
    const Bytes file = both.image.bytes(kSecond);
    both.image.put(
        kSecond, forged<R>(file, Anatomy(file).records, [&](R& r) { r.offset = place.packed(); }));
    return std::move(both.image);
  };
  check_unsound(with_place({0, 0, 5}), "there is no such frame");
  check_unsound(with_place({0, 0, 3}), "is not stored there");  // zero
  check_unsound(with_place({0, 0, 1}), "is another content");
  check_unsound(with_place({9, 0, 4}), "missing or not sound");
  check_unsound(with_place({0xffff, 0xffff, 4}), "missing or not sound");

  const auto with_record = [](auto&& change) {
    Replicas both;
    const Bytes file = both.image.bytes(kSecond);
    both.image.put(kSecond, forged<R>(file, Anatomy(file).records, change));
    return std::move(both.image);
  };
  check_unsound(with_record([](R& r) { ++r.checksum; }), "is another content");
  check_unsound(with_record([](R& r) { r.digest[5] ^= 1; }), "is another content");

  Replicas missing;
  missing.image.remove(kFirst);
  check_unsound(missing.image, "missing or not sound");
  Replicas shorter;
  const UniqueFd other = memory_file();
  write_pages(other.get(), sibling_options(0, 0), {{1, noise(701, 2)}});
  shorter.image.put(kFirst, content_of(other.get()));
  check_unsound(shorter.image, "there is no such frame");
}

TEST_CASE("siblings: a sibling of a sibling, and of a reference to a parent, are refused") {
  using R = layout::FrameRecord;
  Replicas both;
  both.image.write(sibling_options(7, 0), {{1, noise(700, 2)}});
  Bytes file = both.image.bytes(kThird);
  CHECK(both.image.problems().empty());
  // Frame 0 of the second file names frame 4 of the first: a circle, once that names it.
  file = forged<R>(file, Anatomy(file).records, [](R& r) {
    r.offset = SiblingFrame{0, 1, 0}.packed();
  });
  both.image.put(kThird, file);
  const auto problems = both.image.problems();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0] ==
        SiblingCheck::Problem{7, 0,
                              "refers to frame 0 of amdgpu-pages-0-0001.img: is not stored there"});
  CHECK(code_of([&] { both.image.read(kThird); }) == ErrorCode::corrupt);

  const UniqueFd base = memory_file();
  write_pages(base.get(), sibling_options(0, 1), {{1, noise(700, 2)}});
  const PagesReader parent(base.get());
  SiblingImage delta;
  delta.write(sibling_options(0, 1), {{1, noise(700, 2)}}, &parent);
  delta.put(kThird, file);
  CHECK(delta.problems().size() == 1);
  CHECK(code_of([&] { delta.read(kThird); }) == ErrorCode::corrupt);
}

TEST_CASE("siblings: a file under the name of another is refused") {
  Replicas both;
  both.image.put({9, 9}, both.image.bytes(kFirst));
  const Bytes file = both.image.bytes(kSecond);
  using R = layout::FrameRecord;
  both.image.put(kSecond, forged<R>(file, Anatomy(file).records, [](R& r) {
                   r.offset = SiblingFrame{9, 9, 4}.packed();
                 }));
  CHECK(code_of([&] { both.image.read(kSecond); }) == ErrorCode::corrupt);
}

TEST_CASE("siblings: more than the check may hold is not taken for sound") {
  const Replicas both;
  const auto first = both.image.reader(kFirst), second = both.image.reader(kSecond);
  SiblingCheck small(6 * 8);
  small.add(*first);
  small.add(*second);
  REQUIRE(small.problems().size() == 1);
  CHECK(small.problems()[0].reason == "refers to more than can be checked");
  SiblingCheck smaller(7 * 8 + 4 * 16);
  smaller.add(*second);
  smaller.add(*first);
  REQUIRE(smaller.problems().size() == 1);
  CHECK(smaller.problems()[0].reason.find("more than can be checked") != std::string::npos);
  SiblingCheck unconcerned(8);
  unconcerned.add(*first);
  CHECK(unconcerned.problems().empty());
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
  // One by one they have all of their own.
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

TEST_CASE("siblings: damage of what another file has is found when it is read") {
  Replicas both;
  Bytes file = both.image.bytes(kFirst);
  file[4096 * 2 + 77] ^= std::byte{4};  // content of its first frame
  both.image.put(kFirst, file);
  CHECK(both.image.problems().empty());
  CHECK(code_of([&] { both.image.read(kSecond); }) == ErrorCode::corrupt);
}

}  // namespace
}  // namespace kfdcp::test
