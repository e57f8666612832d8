// Addresses of the GPU above the hole between its two halves, on a fake kernel.
#include <amdgpu_drm.h>
#include <doctest/doctest.h>

#include "core/drm/gem.h"
#include "core/drm/render_read.h"
#include "core/drm/render_restore.h"
#include "test/drm/drm_fakes.h"

namespace kfdcp::test {
namespace {

constexpr int kSource = 2001, kTarget = 2002;

const ExistingBuffer kNone = [](std::uint32_t) -> int {
  throw Error(ErrorCode::protocol, "asked for another buffer");
};

TEST_CASE("render file: mappings in the high half of the addresses come back") {
  for (const std::uint64_t high : {0xffff800000000000ull, 0xff00000000000000ull}) {
    FakeDrm drm;
    drm.high_half = high;
    drm::create_bo(kSource, 0x10000, 4096, AMDGPU_GEM_DOMAIN_GTT, 0);
    drm::map_va(kSource, 1, {0, 0, high + 0x200000, 0x1000, 0, AMDGPU_VM_PAGE_READABLE});
    drm::map_va(kSource, 1, {0, 0, -high - 0x1000, 0x1000, 0, AMDGPU_VM_PAGE_READABLE});
    const RenderState state = read_render_file(kSource, 0).state;
    REQUIRE(state.mappings.size() == 2);
    restore_render_file(kTarget, state, kNone);
    CHECK(drm.file(kTarget).mappings.contains(-high + 0x200000));
    CHECK(drm.file(kTarget).mappings.contains(-high - 0x1000));
  }
}

TEST_CASE("render file: no high half, no place for a mapping above the low one") {
  FakeDrm drm;
  drm.high_half = 0;
  drm::create_bo(kSource, 0x10000, 4096, AMDGPU_GEM_DOMAIN_GTT, 0);
  CHECK_THROWS_AS(drm::map_va(kSource, 1, {0, 0, 1ull << 47, 0x1000, 0, 0}), Error);
}

}  // namespace
}  // namespace kfdcp::test
