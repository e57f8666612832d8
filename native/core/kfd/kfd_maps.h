// Mappings of /dev/kfd: doorbells and MMIO pages, whose offsets name the GPU (include/uapi has no
// names for this; drivers/gpu/drm/amd/amdkfd/kfd_priv.h: type in bits 63:62, gpu_id in 61:46).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/kfd/state.h"

namespace kfdcp {

/// The buffer that a mapping of /dev/kfd shows; null when it shows none, as on APUs of old.
/// An offset has the id of a GPU or, from Linux 7.3 on, the one the process knows it by.
const kfd_criu_bo_bucket* kfd_buffer_of(const ProcessState& state, const VmaRecord& vma);

/// Where a restored buffer of /dev/kfd is to be mapped. RESTORE gives the offset with the id of the
/// GPU, and before 7.3 that is the one to map; from then on it is the id the process knows.
/// `can_map` returns whether the kernel accepts an offset: drivers are also installed apart from
/// the kernel, so its `release` only says which to try first. Throws Error{gpu} when it accepts
/// neither.
std::uint64_t kfd_map_offset(const kfd_criu_bo_bucket& restored, std::string_view release,
                             const std::function<bool(std::uint64_t)>& can_map);

}  // namespace kfdcp
