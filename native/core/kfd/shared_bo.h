// A BO that becomes the buffer of another BO again.
#pragma once

#include "core/kfd/blob_bos.h"
#include "core/kfd/state.h"

namespace kfdcp {

/// Gives back the memory that RESTORE made for the BO of `bucket` and `bo`, in the calling process,
/// and imports the memory of `dmabuf_fd` instead, at the same address, with the same handle, mapped
/// on the same GPUs. Throws Error{gpu}.
void exchange_bo(int kfd_fd, const kfd_criu_bo_bucket& bucket, const BlobBo& bo, int dmabuf_fd);

}  // namespace kfdcp
