#include "core/os/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <fstream>
#include <string_view>

namespace kfdcp {
namespace {

constexpr unsigned kNodes = 1024;  // the kernel has no more (MAX_NUMNODES)

std::optional<std::string> line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

/// Reads a number off the front of `text`.
bool take_number(std::string_view& text, unsigned& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return true;
}

/// Calls `each` for the numbers of a list of the kernel, such as "0-3,8".
template <class Each>
void for_each_number(std::string_view list, Each&& each) {
  unsigned first = 0;
  while (take_number(list, first)) {
    unsigned last = first;
    if (list.starts_with('-')) {
      list.remove_prefix(1);
      if (!take_number(list, last)) return;
    }
    for (unsigned number = first; number <= last && number < CPU_SETSIZE; ++number) each(number);
    if (!list.starts_with(',')) return;
    list.remove_prefix(1);
  }
}

}  // namespace

std::optional<NumaNode> numa_node_of(const std::string& render_node, const std::string& sysfs) {
  const std::string nodes = sysfs + "/devices/system/node/";
  unsigned online = 0;
  for_each_number(line_of(nodes + "online").value_or(""), [&](unsigned) { ++online; });
  if (online < 2) return std::nullopt;
  const std::string name = render_node.substr(render_node.rfind('/') + 1);
  const auto text = line_of(sysfs + "/class/drm/" + name + "/device/numa_node");
  NumaNode node{};
  std::string_view number = text ? std::string_view(*text) : std::string_view();
  if (!take_number(number, node.id) || node.id >= kNodes) return std::nullopt;  // -1: unknown
  const std::string cpus = nodes + "node" + std::to_string(node.id) + "/cpulist";
  for_each_number(line_of(cpus).value_or(""), [&](unsigned cpu) { CPU_SET(cpu, &node.cpus); });
  return node;
}

void prefer_node(std::span<std::byte> memory, unsigned node) noexcept {
  constexpr unsigned kBits = sizeof(unsigned long) * CHAR_BIT;
  if (node >= kNodes) return;
  std::array<unsigned long, kNodes / kBits> mask{};
  mask[node / kBits] = 1ul << node % kBits;
  // Slower memory does as well: a kernel without NUMA, or a node that went, is no failure.
  (void)::syscall(SYS_mbind, memory.data(), memory.size(), MPOL_PREFERRED, mask.data(), kNodes + 1,
                  0);
}

bool run_on_node(const NumaNode& node, std::size_t threads) noexcept {
  cpu_set_t allowed{};
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  cpu_set_t both{};
  CPU_AND(&both, &allowed, &node.cpus);
  const int count = CPU_COUNT(&both);
  if (count == 0 || static_cast<std::size_t>(count) < threads) return false;
  return ::sched_setaffinity(0, sizeof both, &both) == 0;
}

}  // namespace kfdcp
