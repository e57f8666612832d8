// Reading a render file and making an equal one, on a fake kernel.
#include <amdgpu_drm.h>
#include <doctest/doctest.h>
#include <fcntl.h>

#include "core/drm/gem.h"
#include "core/drm/render_read.h"
#include "core/drm/render_restore.h"
#include "core/drm/submission.h"
#include "test/drm/drm_fakes.h"
#include "test/drm/render_filled.h"
#include "test/os/error_code.h"
#include "test/os/open_descriptors.h"

namespace kfdcp::test {
namespace {

using Interface = FakeDrm::Interface;
constexpr int kSource = 1001, kTarget = 1002, kOther = 1003;

const ExistingBuffer kNone = [](std::uint32_t) -> int {
  throw Error(ErrorCode::protocol, "asked for another buffer");
};

std::string refusal() {
  const auto found = read_render_file(kSource, 0).refusals;
  return found.size() == 1 ? found[0] : std::to_string(found.size()) + " refusals";
}

TEST_CASE("render file: everything is read") {
  FakeDrm drm;
  fill_render_file(kSource);
  const std::size_t before = open_descriptors();
  {
    const RenderSnapshot read = read_render_file(kSource, 0);
    CHECK(read.refusals.empty());
    const RenderState& state = read.state;
    REQUIRE(state.bos.size() == 3);
    CHECK(state.bos[0].handle == 2);
    CHECK(state.bos[0].size == 0x20000);
    CHECK(state.bos[0].alignment == 0x2000);
    CHECK(state.bos[0].domains == AMDGPU_GEM_DOMAIN_GTT);
    CHECK(state.bos[0].mmap_offset == drm.file(kSource).handles[2]->offset);
    CHECK(state.bos[1].mmap_offset == 0);
    CHECK(state.bos[1].flags == AMDGPU_GEM_CREATE_NO_CPU_ACCESS);
    CHECK(state.bos[2].handle == 7);
    REQUIRE(state.mappings.size() == 3);
    CHECK(state.mappings[0].bo == 0);
    CHECK(state.mappings[0].offset == 0x2000);
    CHECK(state.mappings[1].address == 0x400000);
    CHECK(state.mappings[1].flags == AMDGPU_VM_MTYPE_UC);
    CHECK(state.mappings[2].bo == 2);
    REQUIRE(state.metadata.size() == 1);
    CHECK(state.metadata[0].bo == 1);
    CHECK(state.contexts == std::vector<std::uint32_t>{1, 3});
    REQUIRE(state.rings.size() == 2);
    CHECK(state.rings[0].submissions == 300);
    CHECK(state.rings[0].ring == 1);
    CHECK(state.bo_lists == std::vector<std::uint32_t>{2, 4});
    REQUIRE(read.dmabufs.size() == 3);
    for (const UniqueFd& dmabuf : read.dmabufs) CHECK(::fcntl(dmabuf.get(), F_GETFD) != -1);
    CHECK_NOTHROW(encode_render_state(state));
  }
  CHECK(open_descriptors() == before);
  CHECK(drm.file(kSource).bo_lists.size() == 2);
  CHECK(read_render_file(kOther, 0).state.empty());
}

TEST_CASE("render file: comes back with the same numbers, steered or changed") {
  for (const Interface change : {Interface::absent, Interface::disabled, Interface::working}) {
    FakeDrm drm;
    fill_render_file(kSource);
    drm.change_handle = change;
    const RenderSnapshot source = read_render_file(kSource, 0);
    const RestoredRender restored = restore_render_file(kTarget, source.state, kNone);
    CHECK(restored.dmabufs.size() == 3);
    CHECK(restored.mmap_offsets[0] == drm.file(kTarget).handles[2]->offset);
    CHECK(restored.mmap_offsets[0] != source.state.bos[0].mmap_offset);
    CHECK(restored.mmap_offsets[1] == 0);
    const RenderSnapshot target = read_render_file(kTarget, 0);
    CHECK(target.refusals.empty());
    CHECK(encode_render_state(comparable(target.state)) ==
          encode_render_state(comparable(source.state)));
    const FakeDrm::File& file = drm.file(kTarget);
    CHECK(file.bo_lists.at(4) == std::set<std::uint32_t>{2, 3, 7});
    CHECK(file.contexts.at(1).submitted.at({AMDGPU_HW_IP_DMA, 1}) == 300);
    // The next number is the lowest free one, as before.
    CHECK(drm::create_bo(kTarget, 4096, 4096, AMDGPU_GEM_DOMAIN_GTT, 0) == 1);
  }
}

TEST_CASE("render file: a buffer that exists already is imported") {
  FakeDrm drm;
  fill_render_file(kSource);
  const std::uint32_t theirs = drm::create_bo(kOther, 0x30000, 4096, AMDGPU_GEM_DOMAIN_VRAM, 0);
  const auto dmabuf = drm::export_dmabuf(kOther, theirs);
  REQUIRE(dmabuf);
  RenderSnapshot source = read_render_file(kSource, 0);
  source.state.bos[1].original = 40;
  restore_render_file(kTarget, source.state, [&](std::uint32_t original) {
    CHECK(original == 40);
    return dmabuf->get();
  });
  CHECK(drm.file(kTarget).handles.at(3) == drm.file(kOther).handles.at(theirs));
}

TEST_CASE("render file: a number that comes out wrong is an error") {
  FakeDrm drm;
  fill_render_file(kSource);
  const RenderSnapshot source = read_render_file(kSource, 0);
  drm::create_bo(kTarget, 4096, 4096, AMDGPU_GEM_DOMAIN_GTT, 0);
  CHECK(code_of([&] { restore_render_file(kTarget, source.state, kNone); }) == ErrorCode::gpu);
}

TEST_CASE("render file: a buffer that cannot be passed on as before is an error") {
  FakeDrm drm;
  fill_render_file(kSource);
  const RenderSnapshot source = read_render_file(kSource, 0);
  drm.fails[DRM_IOCTL_PRIME_HANDLE_TO_FD] = EPERM;
  CHECK(code_of([&] { restore_render_file(kTarget, source.state, kNone); }) == ErrorCode::gpu);
}

TEST_CASE("render file: a hole below a handle is filled only when that takes little memory") {
  FakeDrm drm;
  RenderState state;
  state.bos = {{65538, kOwnBo, 4096, 4096, AMDGPU_GEM_DOMAIN_GTT, 0, 0}};
  CHECK(code_of([&] { restore_render_file(kTarget, state, kNone); }) == ErrorCode::unsupported);
  CHECK(drm.file(kTarget).handles.empty());
  drm.change_handle = Interface::working;
  CHECK(code_of([&] { restore_render_file(kTarget, state, kNone); }) == std::nullopt);
}

TEST_CASE("render file: a kernel that cannot list or map is named when there is something") {
  FakeDrm drm;
  for (const Interface off : {Interface::absent, Interface::disabled}) {
    drm.list_handles = off;
    drm.mapping_info = Interface::working;
    CHECK(read_render_file(kSource, 0).refusals.empty());
    drm::create_bo(kSource, 4096, 4096, AMDGPU_GEM_DOMAIN_GTT, 0);
    CHECK(refusal() ==
          "GEM buffers of its own: this kernel cannot list them (no GEM_LIST_HANDLES)");
    drm.list_handles = Interface::working;
    drm.mapping_info = off;
    CHECK(refusal() ==
          "GEM buffers of its own: this kernel cannot tell where the GPU sees them (no "
          "GET_MAPPING_INFO)");
    drm::close_handle(kSource, 1);
    CHECK(read_render_file(kSource, 0).refusals.empty());
  }
}

TEST_CASE("render file: handles that cannot be kept are named, all at once") {
  FakeDrm drm;
  const auto make = [](std::uint64_t domains, std::uint64_t flags) {
    drm::create_bo(kSource, 4096, 4096, domains, flags);
  };
  make(AMDGPU_GEM_DOMAIN_GTT, 0);
  make(AMDGPU_GEM_DOMAIN_GDS, 0);
  make(0x40, 0);
  make(AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_ENCRYPTED);
  make(AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID);
  make(AMDGPU_GEM_DOMAIN_GTT, 0);
  make(AMDGPU_GEM_DOMAIN_GTT, 0);
  drm.file(kSource).handles[6]->userptr = true;
  drm.file(kSource).handles[7]->imported = true;
  drm.file(kSource).handles[8] = drm.file(kSource).handles[1];
  const RenderSnapshot read = read_render_file(kSource, 0);
  CHECK(read.refusals ==
        std::vector<std::string>{"GEM handle 2: it is memory inside the GPU (GDS, GWS, OA)",
                                 "GEM handle 3: it is doorbells of user queues",
                                 "GEM handle 4: it is encrypted",
                                 "GEM handle 5: it is bound to one address space (VM_ALWAYS_VALID)",
                                 "GEM handle 6: it is host memory of the process (userptr)",
                                 "GEM handle 7: its memory belongs to another device or driver",
                                 "GEM handle 8: it is a second handle of another one's memory"});
  CHECK(read.state.bos.size() == 1);
}

TEST_CASE("render file: a mapping of an unknown kind is named, and metadata too long is an error") {
  FakeDrm drm;
  drm::create_bo(kSource, 4096, 4096, AMDGPU_GEM_DOMAIN_GTT, 0);
  drm::map_va(kSource, 1, {0, 0, 0x200000, 4096, 0, AMDGPU_VM_PAGE_READABLE | 1u << 20});
  CHECK(refusal() == "GEM handle 1: it is mapped in an unknown way");
  drm.file(kSource).mappings.clear();
  GemMetadata& metadata = drm.file(kSource).handles.at(1)->metadata;
  metadata.bytes = sizeof(metadata.data);
  CHECK(read_render_file(kSource, 0).state.metadata.at(0).bytes == sizeof(metadata.data));
  ++metadata.bytes;
  CHECK(code_of([] { read_render_file(kSource, 0); }) == ErrorCode::gpu);
}

TEST_CASE("render file: work and contexts that cannot be kept are named") {
  FakeDrm drm;
  FakeDrm::File& file = drm.file(kSource);
  FakeDrm::File::Context& context = file.contexts[4000];
  context.lost = 1;
  CHECK(refusal() == "context 4000: it lost work to a GPU reset");
  context = {};
  context.pins_clocks = true;
  drm.clocks = AMDGPU_CTX_STABLE_PSTATE_PEAK;
  CHECK(refusal() == "context 4000: it pins the GPU's clocks");
  drm.clocks = 0;
  context = {};
  context.submitted[{AMDGPU_HW_IP_GFX, 0}] = 1;
  CHECK(refusal() == "context 4000: it has submitted work to an engine other than SDMA");
  context = {};
  context.submitted[{AMDGPU_HW_IP_DMA, 1}] = kMaxSubmissions;
  CHECK(read_render_file(kSource, 0).state.rings[0].submissions == kMaxSubmissions);
  ++context.submitted[{AMDGPU_HW_IP_DMA, 1}];
  CHECK(refusal() == "context 4000: it has submitted more than 65536 times");
  context = {};
  context.submitted[{AMDGPU_HW_IP_DMA, 0}] = 5;
  context.busy = true;
  CHECK(refusal() == "context 4000: work it submitted is still in flight");
  file.contexts.clear();
  file.syncobjs = {7};
  CHECK(refusal() == "synchronisation objects: they cannot be saved yet");
  file.syncobjs.clear();
  for (std::uint32_t id = 1; id <= kMaxBoListId + 1; ++id) file.bo_lists[id] = {};
  CHECK(refusal() == "BO lists: there are too many to be saved");
}

TEST_CASE("render file: a look for BO lists that fails leaves none behind") {
  FakeDrm drm;
  fill_render_file(kSource);
  const auto before = drm.file(kSource).bo_lists;
  drm.bo_list_room = 100;
  CHECK(code_of([&] { read_render_file(kSource, 0); }) == ErrorCode::gpu);
  CHECK(drm.file(kSource).bo_lists == before);
}

TEST_CASE("render file: a call that fails is an error with its name, and leaves no descriptor") {
  for (const auto& [request, name] :
       {std::pair<unsigned long, const char*>{DRM_IOCTL_AMDGPU_GEM_METADATA, "GEM_METADATA"},
        {DRM_IOCTL_AMDGPU_GEM_MMAP, "GEM_MMAP"},
        {DRM_IOCTL_PRIME_HANDLE_TO_FD, "PRIME_HANDLE_TO_FD"},
        {DRM_IOCTL_AMDGPU_CTX, "CTX_QUERY_STATE2"},
        {DRM_IOCTL_AMDGPU_BO_LIST, "BO_LIST_CREATE"},
        {DRM_IOCTL_SYNCOBJ_QUERY, "SYNCOBJ_QUERY"}}) {
    FakeDrm drm;
    fill_render_file(kSource);
    const std::size_t before = open_descriptors();
    drm.fails[request] = EIO;
    std::string text;
    try {
      read_render_file(kSource, 0);
    } catch (const Error& error) {
      text = error.what();
    }
    CHECK(text.starts_with(name));
    CHECK(text.ends_with("Input/output error"));
    CHECK(open_descriptors() == before);
  }
}

}  // namespace
}  // namespace kfdcp::test
