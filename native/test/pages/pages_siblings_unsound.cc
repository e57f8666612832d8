// Siblings that no writer writes, and those whose contents are not where they should be.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/pages/pages_chain.h"
#include "core/pages/pages_check.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_util.h"
#include "test/pages/sibling_replicas.h"

namespace kfdcp::test {
namespace {

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
