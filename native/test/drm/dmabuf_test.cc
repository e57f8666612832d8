// The buffer behind a dma-buf: its size, and what its GPU calls it.
#include "core/drm/dmabuf.h"

#include <amdgpu_drm.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "core/drm/buffer_name.h"
#include "core/drm/gem.h"
#include "test/drm/drm_fakes.h"
#include "test/os/error_code.h"

namespace kfdcp::test {
namespace {

constexpr int kTheirs = 3;  // a render file of an application
constexpr int kOurs = 4;

std::uint32_t vram(std::uint64_t bytes, std::uint64_t flags = 0) {
  return drm::create_bo(kTheirs, bytes, 4096, AMDGPU_GEM_DOMAIN_VRAM, flags);
}

UniqueFd dmabuf_of(std::uint32_t handle) {
  std::optional<UniqueFd> dmabuf = drm::export_dmabuf(kTheirs, handle);
  REQUIRE(dmabuf);
  return std::move(*dmabuf);
}

}  // namespace

TEST_CASE("dma-buf: the buffer behind it has the name that every file of its GPU sees") {
  FakeDrm kernel;
  const std::uint32_t first = vram(4096), second = vram(8192);
  const drm::BufferName found = drm::buffer_behind(kOurs, dmabuf_of(second).get());
  CHECK(found.bytes == 8192);
  CHECK(found.mmap_offset == drm::mmap_offset(kTheirs, second));
  CHECK(found.mmap_offset != drm::mmap_offset(kTheirs, first));
  CHECK(kernel.file(kOurs).handles.empty());
  CHECK(kernel.file(kTheirs).handles.size() == 2);
}

TEST_CASE("dma-buf: a buffer that the CPU must not map has its size alone") {
  FakeDrm kernel;
  const std::uint32_t hidden = vram(8192, AMDGPU_GEM_CREATE_NO_CPU_ACCESS);
  const drm::BufferName found = drm::buffer_behind(kOurs, dmabuf_of(hidden).get());
  CHECK(found.bytes == 8192);
  CHECK(found.mmap_offset == 0);
  CHECK(kernel.file(kOurs).handles.empty());
}

TEST_CASE("dma-buf: no handle stays when the kernel does not tell the name") {
  FakeDrm kernel;
  const UniqueFd dmabuf = dmabuf_of(vram(4096));
  kernel.fails[DRM_IOCTL_AMDGPU_GEM_MMAP] = EIO;
  CHECK(code_of([&] { (void)drm::buffer_behind(kOurs, dmabuf.get()); }) == ErrorCode::gpu);
  CHECK(kernel.file(kOurs).handles.empty());
  CHECK(code_of([] { (void)drm::buffer_behind(kOurs, -1); }) == ErrorCode::gpu);
}

TEST_CASE("dma-buf: what has no size is an error") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  CHECK(code_of([&] { (void)drm::dmabuf_bytes(reader.get()); }) == ErrorCode::gpu);
  CHECK(code_of([] { (void)drm::dmabuf_bytes(-1); }) == ErrorCode::gpu);
}

TEST_CASE("GEM: a buffer of VRAM that the kernel has made in GTT has both domains") {
  FakeDrm kernel;
  const std::uint32_t handle = vram(4096);
  CHECK(drm::domains_of(kTheirs, handle) == AMDGPU_GEM_DOMAIN_VRAM);
  kernel.file(kTheirs).handles.at(handle)->domains |= AMDGPU_GEM_DOMAIN_GTT;
  CHECK(drm::domains_of(kTheirs, handle) == (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT));
  CHECK(code_of([] { (void)drm::domains_of(kTheirs, 77); }) == ErrorCode::gpu);
}

TEST_CASE("dma-buf: content is the whole of it, or lies where it is said to") {
  const auto fits = [](std::uint64_t whole, std::uint64_t bytes,
                       std::optional<std::uint64_t> offset) {
    return !code_of([&] { drm::check_content(whole, bytes, offset); });
  };
  CHECK(fits(8192, 8192, std::nullopt));
  CHECK_FALSE(fits(8192, 4096, std::nullopt));  // another buffer's dma-buf, or half of one
  CHECK_FALSE(fits(8192, 12288, std::nullopt));
  CHECK_FALSE(fits(0, 0, std::nullopt));
  CHECK(fits(8192, 4096, 0));
  CHECK(fits(8192, 4096, 4096));
  CHECK_FALSE(fits(8192, 4097, 4096));
  CHECK_FALSE(fits(8192, 1, ~0ull));
}

}  // namespace kfdcp::test
