// GEM BOs of a render file by the kernel's own calls: system memory that the CPU may map. All throw
// Error{gpu} or Error{io}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/os/fd.h"

namespace lab {

/// Throws Error{gpu} "<what>: <text>" unless `result`, of a libdrm call, is 0.
void check_drm(int result, const char* what);

kfdcp::UniqueFd open_node(const std::string& node);
/// Returns its handle.
std::uint32_t create_gem(const kfdcp::UniqueFd& file, std::size_t bytes);
kfdcp::UniqueFd export_gem(const kfdcp::UniqueFd& file, std::uint32_t handle);
/// The handle that the file has for the BO already, or a new one.
std::uint32_t import_gem(const kfdcp::UniqueFd& file, const kfdcp::UniqueFd& dmabuf);
kfdcp::Mapping map_gem(const kfdcp::UniqueFd& file, std::uint32_t handle, std::size_t bytes);
void close_gem(const kfdcp::UniqueFd& file, std::uint32_t handle);

}  // namespace lab
