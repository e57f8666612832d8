// A dma-buf at the place of an early descriptor.
#pragma once

#include "core/os/fd.h"

namespace lab {

/// The place of a dma-buf among the descriptors, taken before any device is opened: CRIU
/// gives descriptors back in the order of their numbers, so this one comes back first. Throws
/// Error{io}.
kfdcp::UniqueFd reserve_descriptor();
/// Puts a copy of `dmabuf` in that place. Throws Error{io}.
void fill_descriptor(const kfdcp::UniqueFd& place, const kfdcp::UniqueFd& dmabuf);

}  // namespace lab
