// Nodes of a device, whatever their names.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace kfdcp {

/// A node of the character device `device` in `folder`, or at most two folders below it; nullopt
/// when there is none. Links are not followed: the folder may be a container's.
std::optional<std::string> find_node(const std::string& folder, dev_t device);

}  // namespace kfdcp
