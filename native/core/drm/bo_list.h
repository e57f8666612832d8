// BO lists of one render file. Names of errors and `fd` as in core/drm/gem.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kfdcp::drm {

/// A new list gets the lowest free id.
std::uint32_t create_bo_list(int fd, std::span<const std::uint32_t> handles);
void destroy_bo_list(int fd, std::uint32_t id);

/// Ids of existing BO lists. The kernel does not report them, but each new list gets the lowest
/// free id. Ids that new lists skip are therefore in use. Ends after 512 free ids in a row.
std::vector<std::uint32_t> find_bo_lists(int fd);

}  // namespace kfdcp::drm
