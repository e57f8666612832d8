// Pages files: alone, with a parent, with a file of the same image, and on their way into buffers.
#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>

#include "core/pages/pages_chain.h"
#include "core/pages/pages_check.h"
#include "core/transfer/transfer.h"
#include "test/copy/fake_engine.h"
#include "test/fuzz/targets.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_golden.h"
#include "test/pages/sibling_image.h"

namespace kfdcp::test {
namespace {

/// Contents that one input may make: a few bytes can stand for a large buffer of zeros.
constexpr std::uint64_t kMaxContent = 24u << 20;

Bytes resealed(Bytes file) {
  reseal(file);
  return file;
}

std::uint64_t content_bytes(const PagesReader& reader) {
  std::uint64_t sum = 0;
  for (const BufferEntry& buffer : reader.buffers()) sum += std::min(buffer.size, kMaxContent);
  return sum;
}

bool read_all(const PagesReader& reader) {
  static Bytes frame(layout::kMaxFrameBytes);
  for (std::uint64_t i = 0; i < reader.summary().frames; ++i) {
    reader.read_frame(i, std::span(frame).first(reader.frame(i).raw));
  }
  return true;
}

void run_pages(std::span<const std::byte> input) {
  bool sound = false;
  refusing([&] {
    const UniqueFd fd = memory_file(input);
    const PagesReader reader(fd.get());
    if (content_bytes(reader) > kMaxContent) return;
    sound = read_all(reader);
  });
  bool streamed = false;
  refusing([&] {
    PagesStreamCheck check;
    const std::size_t piece = 1 + input.size() / 3;
    for (auto rest = input; !rest.empty(); rest = rest.subspan(std::min(piece, rest.size()))) {
      check.feed(rest.first(std::min(piece, rest.size())));
    }
    streamed = check.finish().summary.content_bytes <= kMaxContent;
  });
  promise(!streamed || sound, "what is streamed can be read");
}

/// A parent that the golden delta refers to.
const PagesReader& golden_parent() {
  static const UniqueFd fd = memory_file();
  static const PagesReader reader = [] {
    const GoldenPages base = golden_pages().back();
    write_pages(fd.get(), base.options, base.buffers);
    return PagesReader(fd.get());
  }();
  return reader;
}

void run_delta(std::span<const std::byte> input) {
  const UniqueFd fd = memory_file(input);
  const UniqueFd out = memory_file();
  refusing([&] {
    const PagesReader reader(fd.get());
    if (content_bytes(reader) > kMaxContent) return;
    flatten_pages({&reader, &golden_parent()}, out.get());
    const PagesReader whole(out.get());
    promise(read_all(whole), "what was flattened can be read");
    promise(whole.buffers().size() == reader.buffers().size(), "flattened buffers");
  });
}

/// The input in place of one of two files that share contents. The first byte says which.
void run_sibling(std::span<const std::byte> input) {
  if (input.empty()) return;
  static const std::array<Bytes, 2> sound = [] {
    SiblingImage image;
    image.write(golden_pages().back().options, golden_pages().back().buffers);
    image.write(golden_sibling().options, golden_sibling().buffers);
    return std::array{image.bytes({1, 2}), image.bytes({1, 3})};
  }();
  const std::size_t which = static_cast<std::size_t>(input.front()) % 2;
  const SiblingImage::Id ids[] = {{1, 2}, {1, 3}};
  SiblingImage image;
  image.put(ids[which], Bytes(input.begin() + 1, input.end()));
  image.put(ids[1 - which], sound[1 - which]);
  refusing([&] {
    if (content_bytes(*image.reader(ids[which])) > kMaxContent) return;
    const bool without_problems = image.problems().empty();
    image.read(ids[1]);
    promise(without_problems, "what can be read has no problems");
  });
}

/// What an upload writes is what reading gives.
void run_upload(std::span<const std::byte> input) {
  const UniqueFd fd = memory_file(input);
  refusing([&] {
    const PagesReader reader(fd.get());
    if (content_bytes(reader) > kMaxContent) return;
    std::vector<ContentBuffer> targets;
    for (const BufferEntry& buffer : reader.buffers()) {
      targets.push_back({buffer.id, buffer.size, memory_file(Bytes(buffer.size, std::byte{0xa5}))});
    }
    FakeEngine engine({.slots = 3, .slot_bytes = 2u << 20});
    TransferProgress progress;
    std::exception_ptr refused;
    try {
      upload(engine, targets, reader, {.workers = 1}, {}, progress);
    } catch (const Error&) {
      refused = std::current_exception();
    }
    promise(engine.in_flight() == 0 && engine.live == 0, "nothing stays in flight");
    promise(engine.breaches.empty(), "the engine is used as it has to be");
    if (refused) std::rethrow_exception(refused);
    const std::vector<Content> contents = read_pages(reader);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      promise(content_of(targets[i].dmabuf.get()) == contents[i].bytes, "uploaded contents");
    }
  });
}

std::vector<Bytes> pages_seeds() {
  std::vector<Bytes> seeds;
  for (const GoldenPages& golden : golden_pages()) {
    const UniqueFd fd = memory_file();
    write_pages(fd.get(), golden.options, golden.buffers);
    seeds.push_back(content_of(fd.get()));
  }
  return seeds;
}

std::vector<Bytes> delta_seeds() {
  const GoldenPages golden = golden_delta();
  const UniqueFd fd = memory_file();
  PagesWriter writer(fd.get(), golden.options, &golden_parent());
  write_buffers(writer, golden.options, golden.buffers);
  return {content_of(fd.get())};
}

std::vector<Bytes> sibling_seeds() {
  SiblingImage image;
  image.write(golden_pages().back().options, golden_pages().back().buffers);
  image.write(golden_sibling().options, golden_sibling().buffers);
  return {joined({{std::byte{0}}, image.bytes({1, 2})}),
          joined({{std::byte{1}}, image.bytes({1, 3})})};
}

Bytes resealed_sibling(Bytes input) {
  if (input.empty()) return input;
  const Bytes file = resealed(Bytes(input.begin() + 1, input.end()));
  std::copy(file.begin(), file.end(), input.begin() + 1);
  return input;
}

}  // namespace

std::vector<FuzzTarget> pages_targets() {
  return {{"pages", run_pages, resealed, pages_seeds},
          {"delta", run_delta, resealed, delta_seeds},
          {"sibling", run_sibling, resealed_sibling, sibling_seeds},
          {"upload", run_upload, resealed, pages_seeds}};
}

}  // namespace kfdcp::test
