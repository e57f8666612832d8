// sparse_pages FILE PARENT PROCESS GPU FIRST_ID SEED SIZE...: a pages file of buffers of SIZE
// bytes, which may be far more than this host's memory: all is zero but their last frames, which
// hold bytes that depend on SEED in the last buffer. PARENT: a pages file that may have some of
// them, or "". Exits 0, 1 on an error, 2 on wrong usage.
#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <vector>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/pages/frame_codec.h"
#include "core/pages/pages.h"

namespace {

using namespace kfdcp;

constexpr std::uint32_t kFrame = 2u << 20;

struct Request {
  std::uint32_t process;
  std::uint32_t gpu;
  std::uint32_t first_id;
  std::uint64_t seed;
  std::vector<std::uint64_t> sizes;
};

UniqueFd open_file(const char* path, int flags) {
  UniqueFd fd(::open(path, flags | O_CLOEXEC, 0600));
  if (!fd) throw io_error(path);
  return fd;
}

void write_pages(const Request& request, const char* path, const char* parent_path) {
  const UniqueFd file = open_file(path, O_RDWR | O_CREAT | O_EXCL);
  UniqueFd parent_file;
  std::optional<PagesReader> parent;
  if (*parent_path != '\0') {
    parent_file = open_file(parent_path, O_RDONLY);
    parent.emplace(parent_file.get());
  }
  PagesWriter out(
      file.get(),
      {.share = true, .frame_bytes = kFrame, .process = request.process, .gpu = request.gpu},
      parent ? &*parent : nullptr);
  std::uint32_t id = request.first_id;
  for (const std::uint64_t size : request.sizes) {
    out.begin_buffer(id, size);
    std::uint64_t left = size;
    for (; left > kFrame; left -= kFrame) {
      out.place(kFrame, EncodedFrame{Codec::zero, 0, {}, {}});
    }
    const bool last = id + 1 == request.first_id + request.sizes.size();
    std::uint64_t word = id++ * 0x9e3779b97f4a7c15 + (last ? request.seed : 0);
    std::vector<std::byte> frame(left);
    for (std::byte& b : frame) {
      word = word * 6364136223846793005 + 1442695040888963407;
      b = static_cast<std::byte>(word >> 56);
    }
    out.append(frame);
  }
  out.finish();
}

template <typename Number>
bool read(const char* text, Number& value) {
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  return error == std::errc{} && rest == end;
}

}  // namespace

int main(int argc, char** argv) {
  Request request{};
  bool good = argc > 7 && read(argv[3], request.process) && read(argv[4], request.gpu) &&
              read(argv[5], request.first_id) && read(argv[6], request.seed);
  for (int i = 7; good && i < argc; ++i) {
    request.sizes.emplace_back();
    good = read(argv[i], request.sizes.back()) && request.sizes.back() > 0;
  }
  if (!good) {
    std::fprintf(stderr, "usage: sparse_pages FILE PARENT PROCESS GPU FIRST_ID SEED SIZE...\n");
    return 2;
  }
  try {
    write_pages(request, argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sparse_pages: %s\n", error.what());
    return 1;
  }
  return 0;
}
