// Today's code against pages files of every released version.
#include "test/pages/pages_golden.h"

#include <doctest/doctest.h>

#include "core/pages/pages_chain.h"
#include "core/pages/pages_check.h"
#include "test/os/memory_file.h"
#include "test/pages/image_fixture.h"
#include "test/pages/pages_util.h"
#include "test/pages/sibling_image.h"

namespace kfdcp::test {
namespace {

TEST_CASE("golden v1: today's reader reads every pages file") {
  for (const GoldenPages& golden : golden_pages()) {
    CAPTURE(golden.name);
    const Bytes file = fixture(golden.name);
    const UniqueFd fd = memory_file(file);
    const PagesReader reader(fd.get());
    CHECK(read_pages(reader) == golden.buffers);
    CHECK(reader.options().frame_bytes == golden.options.frame_bytes);
    CHECK(reader.options().process == golden.options.process);
    CHECK(reader.options().gpu == golden.options.gpu);
    PagesStreamCheck check;
    check.feed(file);
    CHECK(check.finish().summary.root == reader.summary().root);
  }
}

TEST_CASE("golden v1: today's writer makes the same pages files") {
  for (const GoldenPages& golden : golden_pages()) {
    if (golden.options.compress != Compress::none)
      continue;  // each release of zstd compresses as it likes
    CAPTURE(golden.name);
    const UniqueFd fd = memory_file();
    write_pages(fd.get(), golden.options, golden.buffers);
    CHECK(content_of(fd.get()) == fixture(golden.name));
  }
}

TEST_CASE("golden v1: the zstd fixture holds every codec") {
  const UniqueFd fd = memory_file(fixture("pages-zstd.img"));
  const PagesReader reader(fd.get());
  CHECK(reader.frame(0).codec == Codec::zstd);
  CHECK(reader.frame(1).codec == Codec::raw);
  CHECK(reader.frame(2).codec == Codec::zstd);
  CHECK(reader.frame(3).codec == Codec::zero);
}

TEST_CASE("golden v1: frames of the codecs that need a feature") {
  const UniqueFd lz4 = memory_file(fixture("pages-lz4.img"));
  CHECK(PagesReader(lz4.get()).frame(0).codec == Codec::lz4);
  const UniqueFd planes = memory_file(fixture("pages-planes.img"));
  CHECK(PagesReader(planes.get()).frame(0).codec == Codec::planes);
  CHECK(PagesReader(planes.get()).frame(1).codec == Codec::zstd);
}

TEST_CASE("golden v1: a file that refers to another is read with it, and made again") {
  const GoldenPages golden = golden_delta();
  const UniqueFd fd = memory_file(fixture(golden.name));
  const UniqueFd parent_fd = memory_file(fixture("pages-shared.img"));
  const PagesReader reader(fd.get()), parent(parent_fd.get());
  CHECK(reader.summary().references == 2);
  const UniqueFd flat = memory_file();
  flatten_pages({&reader, &parent}, flat.get());
  CHECK(read_pages(PagesReader(flat.get())) == golden.buffers);

  const UniqueFd made = memory_file();
  PagesWriter writer(made.get(), golden.options, &parent);
  write_buffers(writer, golden.options, golden.buffers);
  CHECK(content_of(made.get()) == fixture(golden.name));
}

TEST_CASE("golden v1: a file that takes contents from another is read with it, and made again") {
  const GoldenPages golden = golden_sibling();
  const GoldenPages first = golden_pages().back();
  REQUIRE(first.name == "pages-shared.img");
  SiblingImage image;
  image.put({1, 2}, fixture(first.name));
  image.put({1, 3}, fixture(golden.name));
  CHECK(image.reader({1, 3})->summary().siblings == 2);
  CHECK(image.problems().empty());
  CHECK(image.read({1, 3}) == golden.buffers);

  SiblingImage made;
  made.write(first.options, first.buffers);
  made.write(golden.options, golden.buffers);
  CHECK(made.bytes({1, 3}) == fixture(golden.name));
}

}  // namespace
}  // namespace kfdcp::test
