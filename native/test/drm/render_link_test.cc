// Links between render files and KFD: identity of buffers, and the file with KFD's memory.
#include "core/drm/render_link.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "test/os/memory_file.h"

namespace kfdcp::test {
namespace {

UniqueFd copy_of(const UniqueFd& fd) { return UniqueFd(::dup(fd.get())); }

void add_bo(RenderSnapshot& file, std::uint32_t handle, const UniqueFd& dmabuf) {
  file.state.bos.push_back({handle, kOwnBo, 4096, 4096, 2, 0, 0});
  file.dmabufs.push_back(copy_of(dmabuf));
}

}  // namespace

TEST_CASE("render link: a buffer is named by the first that has it") {
  const UniqueFd kfds = memory_file(), own = memory_file(), other = memory_file();
  ProcessState state;
  state.bos.resize(5);
  state.bos[3].addr = 0x7000;
  std::vector<std::pair<std::uint32_t, UniqueFd>> dmabufs;
  dmabufs.emplace_back(3, copy_of(kfds));

  RenderSnapshot carrier, second;
  add_bo(carrier, 1, own);   // 5
  add_bo(carrier, 4, kfds);  // 6
  add_bo(second, 2, kfds);   // 7
  add_bo(second, 3, other);  // 8
  add_bo(second, 9, own);    // 9
  carrier.state.mappings = {{1, 0, 0x7000, 4096, 0, 2}, {1, 0, 0x9000, 4096, 0, 2}};
  second.state.mappings = {{0, 0, 0x7000, 4096, 0, 2}};
  const LinkedFile files[] = {{&carrier, true, 1}, {&second, false, 1}};
  link_buffers(files, state, dmabufs);

  CHECK(carrier.state.bos[0].original == kOwnBo);
  CHECK(carrier.state.bos[1].original == 3);
  CHECK(second.state.bos[0].original == 3);
  CHECK(second.state.bos[1].original == kOwnBo);
  CHECK(second.state.bos[2].original == 5);
  // KFD maps its buffer only in its own address space.
  REQUIRE(carrier.state.mappings.size() == 1);
  CHECK(carrier.state.mappings[0].address == 0x9000);
  CHECK(second.state.mappings.size() == 1);
}

TEST_CASE("render link: a buffer is the same by its offset on one GPU, whatever its dma-buf") {
  const UniqueFd kfds = memory_file(), again = memory_file(), other = memory_file();
  ProcessState state;
  state.bos.resize(1);
  state.bos[0].gpu_id = 7;
  state.bos[0].offset = 0x100001000;
  std::vector<std::pair<std::uint32_t, UniqueFd>> dmabufs;
  dmabufs.emplace_back(0, copy_of(kfds));

  // Another export of KFD's buffer, and a buffer of another GPU with the same number.
  RenderSnapshot first, second;
  add_bo(first, 1, again);
  add_bo(second, 1, other);
  first.state.bos[0].mmap_offset = second.state.bos[0].mmap_offset = 0x100001000;
  // The second export is known from now on, also where the CPU must not map it.
  add_bo(second, 2, again);
  const LinkedFile files[] = {{&first, false, 7}, {&second, false, 8}};
  link_buffers(files, state, dmabufs);
  CHECK(first.state.bos[0].original == 0);
  CHECK(second.state.bos[0].original == kOwnBo);
  CHECK(second.state.bos[1].original == 0);
}

TEST_CASE("render link: the file that KFD uses may map, and no other may") {
  const UniqueFd allowed = memory_file(std::vector<std::byte>(8192));
  const UniqueFd denied(::open("/dev/full", O_RDONLY));  // a shared mapping of it is ENODEV
  const UniqueFd write_only = [&] {
    const UniqueFd writable = memory_file();
    return UniqueFd(::open(("/proc/self/fd/" + std::to_string(writable.get())).c_str(), O_WRONLY));
  }();  // EACCES
  REQUIRE(write_only);
  const std::uint64_t offsets[] = {0, 4096};
  const int nobody[] = {write_only.get()};
  const int somebody[] = {write_only.get(), allowed.get()};
  CHECK(carries_kfd(allowed.get(), {}, offsets));
  CHECK(carries_kfd(allowed.get(), nobody, offsets));
  CHECK_FALSE(carries_kfd(allowed.get(), somebody, offsets));
  CHECK_FALSE(carries_kfd(write_only.get(), {}, offsets));
  CHECK_FALSE(carries_kfd(allowed.get(), {}, {}));
  CHECK(carries_kfd(denied.get(), {}, offsets));  // any other errno comes after the right to map
}

}  // namespace kfdcp::test
