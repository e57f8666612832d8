// Mutation fuzzing of everything that decodes an image file. KFD_FUZZ_ITERATIONS says how many
// mutants of each seed file to try, KFD_FUZZ_SEED repeats a run. Worth most with the sanitizers.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "core/pages/pages_chain.h"
#include "core/pages/pages_check.h"
#include "pages_forge.h"
#include "pages_golden.h"
#include "render_sample.h"
#include "sibling_image.h"
#include "state_damage.h"

namespace kfdcp::test {
namespace {

std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

/// Values at which sizes, counts and offsets go wrong.
std::uint64_t edge(Random& random, std::size_t file_size) {
  const std::uint64_t edges[] = {0,        1,          64,         4096,          1u << 20,
                                 4u << 20, 0x7fffffff, 0xffffffff, 1ull << 32,    1ull << 63,
                                 ~0ull,    ~0ull - 63, file_size,  file_size - 64};
  const std::uint64_t value = edges[random.below(std::size(edges))];
  return value + random.below(3) - 1;
}

/// Mutations gather where the structure is, in the first 256 and the last kilobytes.
std::size_t place(Random& random, std::size_t size) {
  const std::size_t kind = random.below(4);
  if (kind == 0) return random.below(size);
  if (kind == 1) return random.below(std::min<std::size_t>(size, 256));
  return size - 1 - random.below(std::min<std::size_t>(size, kind == 2 ? 2048 : 512));
}

void mutate(Bytes& file, Random& random) {
  if (file.empty()) return;
  const std::size_t at = place(random, file.size());
  const auto position = file.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random.below(8)) {
    case 0:
    case 1:
      file[at] ^= std::byte{1} << random.below(8);
      break;
    case 2:
      file[at] = static_cast<std::byte>(random.next());
      break;
    case 3:
    case 4: {  // a field of 4 or 8 bytes
      const std::size_t width = random.below(2) == 0 ? 4 : 8;
      const std::size_t field = at & ~(width - 1);
      const std::uint64_t value = edge(random, file.size());
      if (field + width <= file.size()) std::memcpy(file.data() + field, &value, width);
      break;
    }
    case 5: {  // one part over another
      const std::size_t from = random.below(file.size()) & ~std::size_t{31};
      const std::size_t to = at & ~std::size_t{31};
      const std::size_t length =
          std::min<std::size_t>(32 << random.below(3), file.size() - std::max(from, to));
      std::memmove(file.data() + to, file.data() + from, length);
      break;
    }
    case 6:  // shorter, at the end or inside
      if (random.below(2) == 0) {
        file.resize(at);
      } else {
        const std::size_t length = std::min<std::size_t>(64 << random.below(4), file.size() - at);
        file.erase(position, position + static_cast<std::ptrdiff_t>(length));
      }
      break;
    default:
      file.insert(position, std::size_t{64} << random.below(4), std::byte{0});
  }
}

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

struct Run {
  std::uint64_t seed = number_from_env("KFD_FUZZ_SEED", 20240501);
  std::uint64_t iterations = number_from_env("KFD_FUZZ_ITERATIONS", 1500);
};

TEST_CASE("fuzz: pages files") {
  const Run run;
  MESSAGE("KFD_FUZZ_SEED=" << run.seed << " KFD_FUZZ_ITERATIONS=" << run.iterations);
  Bytes frame(layout::kMaxFrameBytes);
  const UniqueFd fd = memory_file();
  std::uint64_t accepted = 0;
  for (const GoldenPages& golden : golden_pages()) {
    const UniqueFd seed_fd = memory_file();
    write_pages(seed_fd.get(), golden.options, golden.buffers);
    const Bytes seed = contents(seed_fd.get());
    const Digest128 root = PagesReader(seed_fd.get()).summary().root;
    for (std::uint64_t i = 0; i < run.iterations; ++i) {
      CAPTURE(golden.name);
      CAPTURE(i);
      Random random(run.seed + i);
      Bytes mutant = seed;
      for (std::size_t n = 1 + random.below(4); n > 0; --n) mutate(mutant, random);
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
  const Run run;
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
  const Bytes seed = contents(seed_fd.get());
  std::uint64_t accepted = 0;
  for (std::uint64_t i = 0; i < run.iterations; ++i) {
    CAPTURE(run.seed);
    CAPTURE(i);
    Random random(run.seed + i);
    Bytes mutant = seed;
    for (std::size_t n = 1 + random.below(4); n > 0; --n) mutate(mutant, random);
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
  const Run run;
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
    Bytes mutant = seeds[which];
    for (std::size_t n = 1 + random.below(4); n > 0; --n) mutate(mutant, random);
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

/// Mutants of one state file. What is accepted is understood whole: it encodes to the same bytes,
/// but for features of later versions that were read past.
template <typename Decode, typename Encode>
void fuzz_state_files(const Bytes& seed, Decode&& decode, Encode&& encode) {
  const Run run;
  std::uint64_t accepted = 0;
  for (std::uint64_t i = 0; i < 10 * run.iterations; ++i) {
    CAPTURE(run.seed);
    CAPTURE(i);
    Random random(run.seed + i);
    Bytes mutant = seed;
    for (std::size_t n = 1 + random.below(4); n > 0; --n) mutate(mutant, random);
    const bool forge = random.below(4) != 0;
    if (forge) mutant = resealed_state(std::move(mutant));
    try {
      const auto state = decode(mutant);
      if (block_at<std::uint64_t>(mutant, 24) == 0) REQUIRE(encode(state) == mutant);
      REQUIRE((forge || mutant == seed));
      ++accepted;
    } catch (const Error& error) {
      REQUIRE(error.code != ErrorCode::io);
      REQUIRE(error.code != ErrorCode::protocol);
    }
  }
  if (run.iterations >= 100) CHECK(accepted > 0);
}

TEST_CASE("fuzz: state files") {
  fuzz_state_files(encode_state(sample_state()), decode_state, encode_state);
}

TEST_CASE("fuzz: render state files") {
  fuzz_state_files(encode_render_state(sample_render_state()), decode_render_state,
                   encode_render_state);
}

}  // namespace
}  // namespace kfdcp::test
