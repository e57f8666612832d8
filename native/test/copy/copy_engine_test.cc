#include "core/copy/copy_engine.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/copy/copy_staging.h"
#include "core/os/error.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

constexpr EngineOptions kSmall{.slots = 3, .slot_bytes = 8192};

std::array<CopySegment, 1> one(DeviceBuffer& buffer, std::uint64_t offset, std::size_t bytes,
                               std::size_t slot) {
  return {{{&buffer, offset, slot, 0, bytes}}};
}

}  // namespace

TEST_CASE("staging: limits") {
  const auto refused = [](std::size_t slots, std::size_t bytes) {
    return code_of([&] { Staging staging({slots, bytes}); }) == ErrorCode::unsupported;
  };
  CHECK(refused(0, 4096));
  CHECK(refused(33, 4096));
  CHECK(refused(8, 0));
  CHECK(refused(8, 4095));
  CHECK(refused(2, (128u << 20) + 4096));
  CHECK(refused(8, ~std::size_t{0} & ~std::size_t{4095}));
  Staging largest({32, 8u << 20});
  CHECK(largest.all().size() == kMaxStagingBytes);
}

TEST_CASE("staging: slots are disjoint pages, and there are no others") {
  Staging staging(kSmall);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(staging.slot(i).size() == 8192);
    CHECK(reinterpret_cast<std::uintptr_t>(staging.slot(i).data()) % 4096 == 0);
    CHECK(staging.slot(i).data() == staging.all().data() + i * 8192);
  }
  CHECK(code_of([&] { (void)staging.slot(3); }) == ErrorCode::gpu);
}

TEST_CASE("staging: its pages prefer the node that was asked for, all of them") {
  const auto policy = [](const std::byte* address) {
    int mode = -1;
    unsigned long nodes[16] = {};
    // Fails on a kernel without NUMA.
    (void)::syscall(SYS_get_mempolicy, &mode, nodes, 16 * 64, address, MPOL_F_ADDR);
    return mode;
  };
  const Staging plain(kSmall);
  const int usual = policy(plain.all().data());
  const Staging near({.slots = 3, .slot_bytes = 8192, .node = 0});
  const int expected = usual == -1 ? -1 : MPOL_PREFERRED;
  CHECK(usual != MPOL_PREFERRED);
  CHECK(policy(near.slot(0).data()) == expected);
  CHECK(policy(near.slot(2).data() + 4096) == expected);
}

TEST_CASE("staging: copies outside slot or buffer are refused") {
  Staging staging(kSmall);
  const auto ok = [&](std::uint64_t size, std::uint64_t offset, std::size_t bytes,
                      std::size_t slot_offset = 0) {
    return !code_of([&] {
      check_segment(staging, {nullptr, offset, 1, slot_offset, bytes}, size);
    });
  };
  CHECK(ok(8192, 0, 4096, 4096));
  CHECK_FALSE(ok(8192, 0, 4097, 4096));
  CHECK_FALSE(ok(8192, 0, 1, 8192));
  CHECK_FALSE(ok(8192, 0, 1, 512));
  CHECK_FALSE(ok(8192, 0, 1, ~std::size_t{0} & ~std::size_t{4095}));
  CHECK(ok(100, 0, 100));
  CHECK(ok(100, 99, 1));
  CHECK(ok(1ull << 40, (1ull << 40) - 8192, 8192));
  CHECK_FALSE(ok(100, 0, 0));
  CHECK_FALSE(ok(100, 0, 101));
  CHECK_FALSE(ok(100, 100, 1));
  CHECK_FALSE(ok(100, ~0ull, 1));
  CHECK_FALSE(ok(1u << 20, 0, 8193));
  CHECK(code_of([&] { check_segment(staging, {nullptr, 0, 3, 0, 1}, 100); }) == ErrorCode::gpu);
}

TEST_CASE("staging: a copy takes a third of the slots, and 16 MiB at most") {
  const auto of = [](std::size_t slots, std::size_t bytes) {
    return Staging({slots, bytes}).copy_slots();
  };
  CHECK(of(1, 2u << 20) == 1);
  CHECK(of(2, 2u << 20) == 1);
  CHECK(of(16, 2u << 20) == 5);
  CHECK(of(24, 2u << 20) == 8);
  CHECK(of(32, 2u << 20) == 8);
  CHECK(of(32, 4u << 20) == 4);
  CHECK(of(8, 32u << 20) == 1);
}

TEST_CASE("staging: the slots of a copy, each named by segments that follow each other") {
  const auto slots = [](const std::vector<std::size_t>& of_segments) {
    std::vector<CopySegment> segments;
    for (const std::size_t slot : of_segments) segments.push_back({nullptr, 0, slot, 0, 4096});
    return slots_of(segments);
  };
  CHECK(slots({2, 2, 0, 1}) == std::vector<std::size_t>{2, 0, 1});
  CHECK(slots(std::vector<std::size_t>(kMaxSegments, 5)) == std::vector<std::size_t>{5});
  const auto refused = [&](const std::vector<std::size_t>& of_segments) {
    return code_of([&] { (void)slots(of_segments); }) == ErrorCode::gpu;
  };
  CHECK(refused({}));
  CHECK(refused({0, 1, 0}));
  CHECK(refused(std::vector<std::size_t>(kMaxSegments + 1, 5)));
  CHECK_FALSE(refused({0, 1, 2, 3, 4, 5, 6, 7}));
  CHECK(refused({0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_CASE("cpu engine: reads and writes in its range, and nowhere else") {
  const auto engine = make_cpu_engine(kSmall);
  const auto content = noise(5 * 4096, 1);
  const UniqueFd fd = memory_file(content);
  const auto buffer = engine->import(fd.get(), content.size(), 0);

  engine->start_read(one(*buffer, 4096, 8192, 2));
  engine->wait(2);
  CHECK(std::equal(content.begin() + 4096, content.begin() + 4096 + 8192, engine->slot(2).begin()));

  const auto fresh = noise(4096, 2);
  std::copy(fresh.begin(), fresh.end(), engine->slot(0).begin());
  engine->start_write(one(*buffer, 4 * 4096, 4096, 0));
  engine->wait(0);
  auto expected = content;
  std::copy(fresh.begin(), fresh.end(), expected.begin() + 4 * 4096);
  CHECK(content_of(fd.get()) == expected);
}

TEST_CASE("cpu engine: a buffer lives on after its descriptor was closed") {
  const auto engine = make_cpu_engine(kSmall);
  const auto content = noise(4096, 3);
  std::unique_ptr<DeviceBuffer> buffer;
  {
    const UniqueFd fd = memory_file(content);
    buffer = engine->import(fd.get(), content.size(), 0);
  }
  engine->start_read(one(*buffer, 0, 4096, 0));
  CHECK(std::equal(content.begin(), content.end(), engine->slot(0).begin()));
}

TEST_CASE("cpu engine: a dma-buf that is larger than its content is another buffer's") {
  const auto engine = make_cpu_engine(kSmall);
  const UniqueFd fd = memory_file(noise(2 * 4096, 4));
  CHECK(code_of([&] { (void)engine->import(fd.get(), 4096, std::nullopt); }) == ErrorCode::gpu);
  CHECK(engine->import(fd.get(), 2 * 4096, std::nullopt) != nullptr);
}

TEST_CASE("cpu engine: import refuses what is no buffer or is smaller than its size") {
  const auto engine = make_cpu_engine(kSmall);
  const UniqueFd fd = memory_file(noise(4096, 4));
  CHECK(code_of([&] { (void)engine->import(fd.get(), 4097, 0); }) == ErrorCode::gpu);
  CHECK(code_of([&] { (void)engine->import(fd.get(), 0, 0); }) == ErrorCode::gpu);
  CHECK(code_of([&] { (void)engine->import(-1, 4096, 0); }) == ErrorCode::gpu);
}

TEST_CASE("cpu engine: a read-only buffer can be read, not written") {
  const auto engine = make_cpu_engine(kSmall);
  const auto content = noise(4096, 5);
  const UniqueFd fd = memory_file(content);
  const UniqueFd reader(
      ::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(reader);
  const auto buffer = engine->import(reader.get(), content.size(), 0);
  engine->start_read(one(*buffer, 0, 4096, 1));
  CHECK(std::equal(content.begin(), content.end(), engine->slot(1).begin()));
  CHECK(code_of([&] { engine->start_write(one(*buffer, 0, 4096, 1)); }) == ErrorCode::gpu);
}

TEST_CASE("sdma engine: what is no render node is refused by name") {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  REQUIRE(null);
  try {
    (void)make_sdma_engine(null.get(), {});
    FAIL("made an engine of /dev/null");
  } catch (const Error& error) {
    CHECK(error.code == ErrorCode::gpu);
    CHECK(error.err != 0);
    CHECK(std::string(error.what()).find("DRM_IOCTL_VERSION: ") == 0);
  }
}
