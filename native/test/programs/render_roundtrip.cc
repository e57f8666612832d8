// render_roundtrip NODE: fills a file of a render node, reads it, makes another one like it, and
// reads that, too. For a guest with the simulated GPU; what its driver offers decides what is
// tried.
#include <fcntl.h>

#include <cstdio>
#include <string>

#include "core/drm/render_read.h"
#include "core/drm/render_restore.h"
#include "core/os/error.h"
#include "test/drm/render_filled.h"

namespace {

using namespace kfdcp;

constexpr int kIdleTimeoutMs = 2000;

UniqueFd open_node(const char* path) {
  UniqueFd fd(::open(path, O_RDWR | O_CLOEXEC));
  if (!fd) throw io_error(path);
  return fd;
}

RenderSnapshot read_or_say(const UniqueFd& file) {
  RenderSnapshot read = read_render_file(file.get(), kIdleTimeoutMs);
  for (const std::string& refusal : read.refusals) std::printf("refused: %s\n", refusal.c_str());
  return read;
}

void fail(const char* what) { throw Error(ErrorCode::corrupt, std::string("round trip: ") + what); }

int run(const char* path) {
  const UniqueFd source = open_node(path);
  test::fill_render_file(source.get());
  const RenderSnapshot read = read_or_say(source);
  if (!read.refusals.empty()) return 3;
  if (read.state.bos.size() != 3 || read.state.mappings.size() != 3) fail("buffers are missing");
  if (read.state.contexts.size() != 2 || read.state.rings.size() != 2) fail("rings are missing");
  if (read.state.bo_lists.size() != 2) fail("BO lists are missing");

  const RenderState stored = decode_render_state(encode_render_state(read.state));
  const UniqueFd target = open_node(path);
  restore_render_file(target.get(), stored, [](std::uint32_t) -> int {
    throw Error(ErrorCode::corrupt, "round trip: another buffer was asked for");
  });
  const RenderSnapshot again = read_or_say(target);
  if (encode_render_state(test::comparable(again.state)) !=
      encode_render_state(test::comparable(stored))) {
    fail("it differs from the recorded one");
  }
  // A context continues where it was: the next submission has the next number.
  drm::submit_nothing(target.get(), 1, 1, 1);
  if (drm::count_submissions(target.get(), 1, AMDGPU_HW_IP_DMA, 1) != 301) fail("lost count");
  std::printf("same: %s\n", drm::can_change_handles(target.get()) ? "changed" : "steered");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: render_roundtrip NODE\n", stderr);
    return 64;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "render_roundtrip: %s\n", error.what());
    return 1;
  }
}
