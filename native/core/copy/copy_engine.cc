#include "core/copy/copy_engine.h"

#include "core/os/error.h"

namespace kfdcp {

std::optional<AllocatedBuffer> CopyEngine::allocate(std::uint64_t) { return std::nullopt; }

void CopyEngine::start_move(std::span<const CopyMove>, std::size_t) {
  throw Error(ErrorCode::gpu, "copy between buffers: this engine has no memory of its own");
}

}  // namespace kfdcp
