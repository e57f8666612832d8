// What the kernel says of contexts, and what it means: on a fake kernel.
#include "core/drm/submission.h"

#include <amdgpu_drm.h>
#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <optional>

#include "core/drm/render_read.h"
#include "core/drm/render_restore.h"
#include "test/drm/drm_fakes.h"
#include "test/os/error_code.h"

namespace kfdcp::test {
namespace {

constexpr int kSource = 2001, kOther = 2003;

std::vector<std::string> refusals() { return read_render_file(kSource, 0).refusals; }

TEST_CASE("context: resets and lost memory count, errors that the GPU only counted do not") {
  FakeDrm drm;
  FakeDrm::File::Context& context = drm.file(kSource).contexts[1];
  for (const std::uint32_t counted :
       {AMDGPU_CTX_QUERY2_FLAGS_RAS_CE, AMDGPU_CTX_QUERY2_FLAGS_RAS_UE}) {
    context.lost = counted;
    CHECK(refusals().empty());
    for (const std::uint32_t lost :
         {AMDGPU_CTX_QUERY2_FLAGS_RESET, AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST,
          AMDGPU_CTX_QUERY2_FLAGS_GUILTY, 1 << 5 /* RESET_IN_PROGRESS */}) {
      context.lost = counted | lost;
      CHECK(refusals() == std::vector<std::string>{"context 1: it lost work to a GPU reset"});
    }
  }
}

TEST_CASE("context: clocks that somebody else pinned are no reason, and stay as they are") {
  FakeDrm drm;
  drm.file(kSource).contexts[1] = {};
  drm.clocks = AMDGPU_CTX_STABLE_PSTATE_PEAK;  // the administrator's
  CHECK(refusals().empty());
  drm.file(kOther).contexts[1].pins_clocks = true;
  CHECK(refusals().empty());
  drm.file(kOther).contexts[1].pins_clocks = false;
  drm.file(kSource).contexts[2].pins_clocks = true;
  CHECK(refusals() == std::vector<std::string>{"context 2: it pins the GPU's clocks"});
  CHECK(drm.clocks == AMDGPU_CTX_STABLE_PSTATE_PEAK);
  CHECK(drm.file(kSource).contexts.size() == 2);
  CHECK_FALSE(drm.file(kSource).contexts[1].pins_clocks);
}

TEST_CASE("context: rings of which the kernel tells nothing are an error, not a lack of rings") {
  FakeDrm drm;
  drm.file(kSource).contexts[1] = {};
  drm.fails[DRM_IOCTL_AMDGPU_INFO] = EIO;
  CHECK(code_of(refusals) == ErrorCode::gpu);
}

TEST_CASE("context: empty submissions that do not end are an error, and their memory is freed") {
  FakeDrm drm;
  FakeDrm::File& file = drm.file(kOther);
  file.contexts[1].busy = true;
  const auto limit = std::chrono::milliseconds(20);
  CHECK(code_of([=] { drm::submit_nothing(kOther, 1, 0, 2, limit); }) == ErrorCode::gpu);
  CHECK(file.handles.empty());
  file.contexts[1].busy = false;
  CHECK(code_of([] { drm::submit_nothing(kOther, 1, 0, 2); }) == std::nullopt);
}

TEST_CASE(
    "context: a driver with another clock, as under a time namespace, does not shorten a wait") {
  FakeDrm drm;
  drm.file(kOther).contexts[1].busy_answers = 3;
  CHECK(code_of([] { drm::submit_nothing(kOther, 1, 0, 2); }) == std::nullopt);
  CHECK(drm.file(kOther).contexts[1].busy_answers == 0);
}

TEST_CASE("context: a ring that only repeats an error is named, and its submissions not counted") {
  FakeDrm drm;
  FakeDrm::File::Context& context = drm.file(kSource).contexts[1];
  context.submitted[{AMDGPU_HW_IP_DMA, 0}] = 3;
  context.failed[{AMDGPU_HW_IP_DMA, 0}] = ECANCELED;
  CHECK(refusals() ==
        std::vector<std::string>{"context 1: work it submitted failed: Operation canceled"});
}

}  // namespace
}  // namespace kfdcp::test
