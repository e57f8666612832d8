// BO lists of one render file. Names of errors and `fd` as in core/drm/gem.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kfdcp::drm {

/// The lowest free id becomes that of a new one.
std::uint32_t create_bo_list(int fd, std::span<const std::uint32_t> handles);
void destroy_bo_list(int fd, std::uint32_t id);

/// Ids of the BO lists there are. The kernel does not tell; but each new one gets the lowest free
/// id, so the ids that new ones skip are taken. Looks until 512 in a row were free.
std::vector<std::uint32_t> find_bo_lists(int fd);

}  // namespace kfdcp::drm
