// The only part of KFD's private data that is read: facts about each BO that the buckets lack
// (struct kfd_criu_bo_priv_data, drivers/gpu/drm/amd/amdkfd/kfd_priv.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/kfd/state.h"

namespace kfdcp {

struct BlobBo {
  std::uint32_t number;             // of the process's handle, counted from 0 on each GPU
  std::vector<std::uint32_t> gpus;  // that map it, as the process knows them
};

/// One for each of `state.bos`, in that order. The layout is the one of Linux 6.12 to 7.3; Error
/// {unsupported} when the data cannot be of it.
std::vector<BlobBo> blob_bos(const ProcessState& state);

}  // namespace kfdcp
