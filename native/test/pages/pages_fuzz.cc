// Mutation fuzzing of everything that decodes pages files: test/pages/mutation.h.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "core/pages/pages_chain.h"
#include "core/pages/pages_check.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/mutation.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_golden.h"
#include "test/pages/pages_util.h"
#include "test/pages/sibling_image.h"

namespace kfdcp::test {
namespace {

/// Opens `bytes` in `fd` and reads every frame; none when something was refused.
std::optional<Digest128> read_all(int fd, const Bytes& bytes, Bytes& frame) {
  REQUIRE(::ftruncate(fd, 0) == 0);
  iovec part = write_part(bytes);
  write_exactly(fd, {&part, 1}, 0, "mutant");
  try {
    const PagesReader reader(fd);
    for (std::uint64_t i = 0; i < reader.summary().frames; ++i) {
      reader.read_frame(i, std::span(frame).first(reader.frame(i).raw));
    }
    return reader.summary().root;
  } catch (const Error& error) {
    REQUIRE(error.code != ErrorCode::io);
    REQUIRE(error.code != ErrorCode::protocol);
    return std::nullopt;
  }
}

std::optional<Digest128> stream_all(const Bytes& bytes, std::size_t piece) {
  try {
    PagesStreamCheck check;
    for (std::span<const std::byte> rest(bytes); !rest.empty();) {
      const auto part = rest.first(std::min(piece, rest.size()));
      check.feed(part);
      rest = rest.subspan(part.size());
    }
    return check.finish().summary.root;
  } catch (const Error& error) {
    REQUIRE(error.code != ErrorCode::io);
    REQUIRE(error.code != ErrorCode::protocol);
    return std::nullopt;
  }
}

TEST_CASE("fuzz: pages files") {
  const FuzzRun run;
  MESSAGE("KFD_FUZZ_SEED=" << run.seed << " KFD_FUZZ_ITERATIONS=" << run.iterations);
  Bytes frame(layout::kMaxFrameBytes);
  const UniqueFd fd = memory_file();
  std::uint64_t accepted = 0;
  for (const GoldenPages& golden : golden_pages()) {
    const UniqueFd seed_fd = memory_file();
    write_pages(seed_fd.get(), golden.options, golden.buffers);
    const Bytes seed = content_of(seed_fd.get());
    const Digest128 root = PagesReader(seed_fd.get()).summary().root;
    for (std::uint64_t i = 0; i < run.iterations; ++i) {
      CAPTURE(golden.name);
      CAPTURE(i);
      Random random(run.seed + i);
      Bytes mutant = mutant_of(seed, random);
      const bool forge = random.below(2) == 0;
      if (forge) reseal(mutant);
      const auto read = read_all(fd.get(), mutant, frame);
      const auto streamed = stream_all(mutant, 1 + random.below(2 * mutant.size() + 1));
      // What no checksum was forged for is refused or still the old content.
      if (read && !forge) REQUIRE(*read == root);
      // The stream check is the stricter one.
      if (streamed) REQUIRE(read == streamed);
      if (read) ++accepted;
    }
  }
  // Some mutants are harmless; if none were accepted, the harness itself would be broken.
  if (run.iterations >= 100) CHECK(accepted > 0);
}

TEST_CASE("fuzz: pages files that refer to a parent") {
  const FuzzRun run;
  const GoldenPages golden = golden_delta();
  const auto parents = golden_pages();
  const GoldenPages& base = parents.back();
  REQUIRE(base.name == "pages-shared.img");
  const UniqueFd parent_fd = memory_file();
  write_pages(parent_fd.get(), base.options, base.buffers);
  const PagesReader parent(parent_fd.get());
  const UniqueFd seed_fd = memory_file();
  PagesWriter writer(seed_fd.get(), golden.options, &parent);
  write_buffers(writer, golden.options, golden.buffers);
  const Bytes seed = content_of(seed_fd.get());
  std::uint64_t accepted = 0;
  for (std::uint64_t i = 0; i < run.iterations; ++i) {
    CAPTURE(run.seed);
    CAPTURE(i);
    Random random(run.seed + i);
    Bytes mutant = mutant_of(seed, random);
    const bool forge = random.below(2) == 0;
    if (forge) reseal(mutant);
    stream_all(mutant, 1 + random.below(2 * mutant.size() + 1));
    const UniqueFd fd = memory_file(mutant);
    const UniqueFd out = memory_file();
    try {
      const PagesReader reader(fd.get());
      flatten_pages({&reader, &parent}, out.get());
      if (!forge) REQUIRE(read_pages(PagesReader(out.get())) == golden.buffers);
      ++accepted;
    } catch (const Error& error) {
      REQUIRE(error.code != ErrorCode::io);
      REQUIRE(error.code != ErrorCode::protocol);
    }
  }
  if (run.iterations >= 100) CHECK(accepted > 0);
}

TEST_CASE("fuzz: pages files that take contents from another") {
  const FuzzRun run;
  const GoldenPages golden = golden_sibling();
  const GoldenPages first = golden_pages().back();
  SiblingImage image;
  image.write(first.options, first.buffers);
  image.write(golden.options, golden.buffers);
  const SiblingImage::Id ids[] = {{1, 2}, {1, 3}};
  const Bytes seeds[] = {image.bytes(ids[0]), image.bytes(ids[1])};
  std::uint64_t accepted = 0, unsound = 0;
  for (std::uint64_t i = 0; i < 2 * run.iterations; ++i) {
    CAPTURE(run.seed);
    CAPTURE(i);
    Random random(run.seed + i);
    const std::size_t which = i % 2;
    Bytes mutant = mutant_of(seeds[which], random);
    const bool forge = random.below(2) == 0;
    if (forge) reseal(mutant);
    stream_all(mutant, 1 + random.below(2 * mutant.size() + 1));
    image.put(ids[which], mutant);
    image.put(ids[1 - which], seeds[1 - which]);
    try {
      const bool sound = image.problems().empty();
      if (!sound) ++unsound;
      const std::vector<Content> content = image.read(ids[1]);
      // What can be read was found sound before; what was not forged is the old content.
      REQUIRE(sound);
      if (!forge) REQUIRE(content == golden.buffers);
      ++accepted;
    } catch (const Error& error) {
      REQUIRE(error.code != ErrorCode::io);
      REQUIRE(error.code != ErrorCode::protocol);
    }
  }
  if (run.iterations >= 100) CHECK(accepted > 0);
  if (run.iterations >= 100) CHECK(unsound > 0);
}

}  // namespace
}  // namespace kfdcp::test
