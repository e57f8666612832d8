// NUMA nodes: memory and threads near a device.
#pragma once

#include <sched.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace kfdcp {

struct NumaNode {
  unsigned id;
  cpu_set_t cpus;  // may be empty: nodes of memory alone
};

/// The node of the GPU with this render node ("/dev/dri/renderD128"), by `sysfs`. None on a host of
/// one node, and where sysfs does not tell.
std::optional<NumaNode> numa_node_of(const std::string& render_node,
                                     const std::string& sysfs = "/sys");

/// Pages of `memory`, whole and not touched yet, will come from the node while it has any.
void prefer_node(std::span<std::byte> memory, unsigned node) noexcept;

/// This thread, and those that it will start, run on the processors of the node that it may use.
/// Returns false, and changes nothing, when there are fewer than `threads`.
bool run_on_node(const NumaNode& node, std::size_t threads) noexcept;

}  // namespace kfdcp
