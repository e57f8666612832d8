// Mappings of /dev/kfd whose offsets name a GPU by one id or the other.
#include "core/kfd/kfd_maps.h"

#include <doctest/doctest.h>

#include "core/os/error.h"

namespace kfdcp::test {
namespace {

constexpr std::uint64_t kDoorbell = std::uint64_t{3} << 62;
constexpr std::uint32_t kDoorbellFlag = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL;
constexpr std::uint32_t kMmioFlag = KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP;

std::uint64_t of_gpu(std::uint64_t type, std::uint32_t gpu_id) {
  return type | std::uint64_t{gpu_id} << 46;
}

kfd_criu_bo_bucket buffer(std::uint64_t addr, std::uint64_t offset, std::uint32_t gpu_id,
                          std::uint32_t flags) {
  kfd_criu_bo_bucket bo{};
  bo.addr = addr;
  bo.size = 8192;
  bo.offset = offset;
  bo.gpu_id = gpu_id;
  bo.alloc_flags = flags;
  return bo;
}

VmaRecord mapping(std::uint64_t start, std::uint64_t pgoff) {
  return {start, start + 8192, pgoff, VmaRecord::kfd, 0};
}

/// The process knows the GPUs as 10 and 20; they are `first` and `second`.
ProcessState two_gpus(std::uint32_t first, std::uint32_t second) {
  ProcessState state;
  state.bos = {buffer(0x1000000, of_gpu(kDoorbell, first), 10, kDoorbellFlag),
               buffer(0x2000000, of_gpu(0, first), 10, kMmioFlag),
               buffer(0x3000000, of_gpu(kDoorbell, second), 20, kDoorbellFlag),
               buffer(0x4000000, 0x100000000, 10, KFD_IOC_ALLOC_MEM_FLAGS_VRAM)};
  return state;
}

TEST_CASE("kfd maps: a mapping shows the buffer of its kind and GPU") {
  const ProcessState state = two_gpus(11, 21);
  const auto shows = [&](std::uint64_t start, std::uint64_t pgoff) {
    const kfd_criu_bo_bucket* bo = kfd_buffer_of(state, mapping(start, pgoff));
    return bo == nullptr ? -1 : static_cast<int>(bo - state.bos.data());
  };
  CHECK(shows(0x9000000, of_gpu(kDoorbell, 11)) == 0);
  CHECK(shows(0x9000000, of_gpu(kDoorbell, 10)) == 0);
  CHECK(shows(0x9000000, of_gpu(0, 10)) == 1);
  CHECK(shows(0x9000000, of_gpu(kDoorbell, 20)) == 2);
  CHECK(shows(0x9000000, of_gpu(kDoorbell, 21)) == 2);
  CHECK(shows(0x9000000, of_gpu(kDoorbell, 12)) == -1);
  CHECK(shows(0x9000000, of_gpu(0, 20)) == -1);
  CHECK(shows(0x9000000, std::uint64_t{2} << 62) == -1);  // the event page of an APU
}

TEST_CASE("kfd maps: where two GPUs have exchanged ids, the address decides") {
  const ProcessState state = two_gpus(20, 10);
  const auto gpu = [&](std::uint64_t start, std::uint32_t id) {
    return kfd_buffer_of(state, mapping(start, of_gpu(kDoorbell, id)))->gpu_id;
  };
  CHECK(gpu(0x1000000, 10) == 10);
  CHECK(gpu(0x1000000, 20) == 10);
  CHECK(gpu(0x3000000, 10) == 20);
  CHECK(gpu(0x9000000, 20) == 10);  // else as before 7.3
}

TEST_CASE("kfd maps: the id that the kernel takes") {
  kfd_criu_bo_bucket bo = buffer(0x1000000, of_gpu(kDoorbell, 10), 10, kDoorbellFlag);
  bo.restored_offset = of_gpu(kDoorbell, 11);
  const auto offset = [&](const char* release, std::uint32_t taken) {
    return kfd_map_offset(bo, release,
                          [=](std::uint64_t tried) { return tried == of_gpu(kDoorbell, taken); });
  };
  for (const char* release : {"6.12.107+deb13-amd64", "7.3.4", "7.10-rc1", "", "7", "x.y"}) {
    CHECK(offset(release, 10) == of_gpu(kDoorbell, 10));
    CHECK(offset(release, 11) == of_gpu(kDoorbell, 11));
    CHECK_THROWS_AS(offset(release, 12), Error);
  }
  const auto both = [&](const char* release) {
    return kfd_map_offset(bo, release, [](std::uint64_t) { return true; });
  };
  CHECK(both("6.12.107+deb13-amd64") == of_gpu(kDoorbell, 11));
  CHECK(both("7.2.6") == of_gpu(kDoorbell, 11));
  CHECK(both("7.3.4") == of_gpu(kDoorbell, 10));
  CHECK(both("7.10.0") == of_gpu(kDoorbell, 10));
  CHECK(both("8.0") == of_gpu(kDoorbell, 10));
}

TEST_CASE("kfd maps: nothing is tried where the ids are the same") {
  kfd_criu_bo_bucket bo = buffer(0x1000000, of_gpu(kDoorbell, 10), 10, kDoorbellFlag);
  bo.restored_offset = of_gpu(kDoorbell, 10);
  CHECK(kfd_map_offset(bo, "7.3", [](std::uint64_t) -> bool {
          FAIL("tried");
          return false;
        }) == of_gpu(kDoorbell, 10));
}

}  // namespace
}  // namespace kfdcp::test
