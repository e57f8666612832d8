// The exchange of a BO's memory, on a fake IDR.
#include "core/kfd/shared_bo.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "core/kfd/kfd.h"
#include "test/kfd/kfd_fakes.h"
#include "test/os/error_code.h"

namespace kfdcp::test {
namespace {

constexpr std::uint32_t kGpu = 7;
constexpr std::uint64_t kVa = 0x7f0000000000;
constexpr int kDmabuf = 55;

/// Numbers of one GPU, and what was asked in which order: m map, u unmap, f free,
/// a allocate a page, i import.
struct Idr {
  std::set<std::uint32_t> used;
  std::string calls;
  std::vector<std::uint32_t> mapped;

  std::uint64_t give_lowest() {
    std::uint32_t number = 0;
    while (used.contains(number)) ++number;
    used.insert(number);
    return std::uint64_t{kGpu} << 32 | number;
  }

  int answer(unsigned long request, void* argument) {
    switch (request) {
      case AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU:
        calls += 'u';
        return 0;
      case AMDKFD_IOC_MAP_MEMORY_TO_GPU: {
        const auto& args = *static_cast<kfd_ioctl_map_memory_to_gpu_args*>(argument);
        calls += 'm';
        CHECK((args.handle >> 32) == kGpu);
        const auto* gpus = reinterpret_cast<const std::uint32_t*>(args.device_ids_array_ptr);
        mapped.assign(gpus, gpus + args.n_devices);
        return 0;
      }
      case AMDKFD_IOC_FREE_MEMORY_OF_GPU: {
        const auto& args = *static_cast<kfd_ioctl_free_memory_of_gpu_args*>(argument);
        calls += 'f';
        CHECK(used.erase(static_cast<std::uint32_t>(args.handle)) == 1);
        return 0;
      }
      case AMDKFD_IOC_IMPORT_DMABUF: {
        auto& args = *static_cast<kfd_ioctl_import_dmabuf_args*>(argument);
        calls += 'i';
        CHECK(args.va_addr == kVa);
        CHECK(args.dmabuf_fd == kDmabuf);
        args.handle = give_lowest();
        return 0;
      }
      case AMDKFD_IOC_ALLOC_MEMORY_OF_GPU: {
        auto& args = *static_cast<kfd_ioctl_alloc_memory_of_gpu_args*>(argument);
        calls += 'a';
        CHECK(args.va_addr == kVa);
        CHECK(args.size == 4096);
        args.handle = give_lowest();
        return 0;
      }
      default:
        FAIL("an ioctl that was not expected");
        return -1;
    }
  }
};

void exchange(Idr& idr, const BlobBo& bo) {
  const FakeKernel kernel(
      [&](int, unsigned long request, void* argument) { return idr.answer(request, argument); });
  kfd_criu_bo_bucket bucket{};
  bucket.addr = kVa;
  bucket.gpu_id = kGpu;
  exchange_bo(3, bucket, bo, kDmabuf);
}

}  // namespace

TEST_CASE("shared BO: memory goes, the buffer comes under the same number and mappings") {
  Idr idr{.used = {0, 1, 2, 3}, .calls = {}, .mapped = {}};
  exchange(idr, {.number = 2, .gpus = {7, 9}});
  CHECK(idr.calls == "ufafim");
  CHECK(idr.mapped == std::vector<std::uint32_t>{7, 9});
  CHECK(idr.used == std::set<std::uint32_t>{0, 1, 2, 3});
}

TEST_CASE("shared BO: free numbers below are used up on the way, and free again afterwards") {
  Idr idr{.used = {1, 5}, .calls = {}, .mapped = {}};
  exchange(idr, {.number = 5, .gpus = {}});
  // Only one import: every import of the buffer has the same GEM handle.
  CHECK(idr.calls == "faaaaafiffff");
  CHECK(idr.used == std::set<std::uint32_t>{1, 5});
}

TEST_CASE("shared BO: a number that is taken meanwhile is no endless loop") {
  Idr idr{.used = {0, 1, 2}, .calls = {}, .mapped = {}};
  const FakeKernel kernel([&](int, unsigned long request, void* argument) {
    const int result = idr.answer(request, argument);
    if (request == AMDKFD_IOC_FREE_MEMORY_OF_GPU && idr.calls == "f") idr.used.insert(2);
    return result;
  });
  kfd_criu_bo_bucket bucket{};
  bucket.addr = kVa;
  bucket.gpu_id = kGpu;
  const auto code = code_of([&] { exchange_bo(3, bucket, {.number = 2, .gpus = {}}, kDmabuf); });
  CHECK(code == ErrorCode::gpu);
  CHECK(idr.used == std::set<std::uint32_t>{0, 1, 2});
  CHECK(idr.calls == "faf");
}

}  // namespace kfdcp::test
