#include "core/os/numa.h"

#include <doctest/doctest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/os/page_memory.h"

using namespace kfdcp;
namespace fs = std::filesystem;

namespace {

/// A /sys of two nodes and one GPU, at the second.
struct FakeSysfs {
  FakeSysfs() {
    fs::remove_all(root);
    put("devices/system/node/online", "0-1\n");
    put("devices/system/node/node0/cpulist", "0-3,8-11\n");
    put("devices/system/node/node1/cpulist", "4-7,12\n");
    put("class/drm/renderD129/device/numa_node", "1\n");
  }
  ~FakeSysfs() { fs::remove_all(root); }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  std::optional<NumaNode> node(const std::string& render = "/dev/dri/renderD129") const {
    return numa_node_of(render, root.string());
  }
  const fs::path root = fs::temp_directory_path() / ("numa-" + std::to_string(::getpid()));
};

std::vector<int> numbers_of(const cpu_set_t& set) {
  std::vector<int> numbers;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) numbers.push_back(cpu);
  }
  return numbers;
}

std::vector<int> allowed() {
  cpu_set_t set{};
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  return numbers_of(set);
}

NumaNode node_of(const std::vector<int>& cpus) {
  NumaNode node{};
  for (const int cpu : cpus) CPU_SET(cpu, &node.cpus);
  return node;
}

/// Policy and lowest node of the memory at `address`; false where the kernel has none.
bool policy_of(const std::byte* address, int& mode, unsigned long& nodes) {
  unsigned long mask[16] = {};
  const long r = ::syscall(SYS_get_mempolicy, &mode, mask, 16 * 64, address, MPOL_F_ADDR);
  nodes = mask[0];
  return r == 0;
}

}  // namespace

TEST_CASE("numa: the node of a GPU, and its processors") {
  const FakeSysfs sysfs;
  const auto node = sysfs.node();
  REQUIRE(node);
  CHECK(node->id == 1);
  CHECK(numbers_of(node->cpus) == std::vector<int>{4, 5, 6, 7, 12});
  CHECK(sysfs.node("renderD129"));
  sysfs.put("devices/system/node/node1/cpulist", "\n");  // memory alone
  CHECK(CPU_COUNT(&sysfs.node()->cpus) == 0);
}

TEST_CASE("numa: none on one node, and where sysfs does not tell") {
  const FakeSysfs sysfs;
  CHECK_FALSE(sysfs.node("/dev/dri/renderD128"));
  for (const char* unknown : {"-1\n", "\n", "x\n", "4294967295\n"}) {
    sysfs.put("class/drm/renderD129/device/numa_node", unknown);
    CHECK_FALSE(sysfs.node());
  }
  sysfs.put("class/drm/renderD129/device/numa_node", "0\n");
  CHECK(sysfs.node());
  for (const char* one : {"0\n", "", "-\n"}) {
    sysfs.put("devices/system/node/online", one);
    CHECK_FALSE(sysfs.node());
  }
  CHECK_FALSE(numa_node_of("/dev/dri/renderD129", (sysfs.root / "absent").string()));
}

TEST_CASE("numa: a thread and those it starts run on the node's processors that are allowed") {
  const std::vector<int> before = allowed();
  const int last = before.back();
  std::vector<int> seen;
  std::thread([&] {
    CHECK(run_on_node(node_of({last, CPU_SETSIZE - 1}), 1));
    std::thread([&] { seen = allowed(); }).join();
  }).join();
  CHECK(seen == std::vector<int>{last});
  CHECK(allowed() == before);
}

TEST_CASE("numa: threads stay where they are when the node has too few processors for them") {
  const std::vector<int> before = allowed();
  std::thread([&] {
    CHECK_FALSE(run_on_node(node_of({}), 0));
    CHECK_FALSE(run_on_node(node_of({CPU_SETSIZE - 1}), 1));
    CHECK_FALSE(run_on_node(node_of(before), before.size() + 1));
    CHECK(allowed() == before);
  }).join();
}

TEST_CASE("numa: memory prefers a node, and does without one") {
  int mode = 0;
  unsigned long nodes = 0;
  const Mapping memory = page_memory(2 * kPageBytes);
  if (!policy_of(memory.data(), mode, nodes)) {
    MESSAGE("this kernel has no NUMA policies");
    return;
  }
  CHECK(mode == MPOL_DEFAULT);
  prefer_node(memory.bytes(), 1023);  // there is none
  prefer_node(memory.bytes(), 0);
  for (std::size_t page = 0; page < 2; ++page) {
    REQUIRE(policy_of(memory.data() + page * kPageBytes, mode, nodes));
    CHECK(mode == MPOL_PREFERRED);
    CHECK(nodes == 1);
  }
  memory.data()[0] = std::byte{1};
}
