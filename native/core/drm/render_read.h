// Reading the contents of one render file, while its process is stopped.
#pragma once

#include <string>
#include <vector>

#include "core/drm/render_state.h"
#include "core/os/fd.h"

namespace kfdcp {

struct RenderSnapshot {
  RenderState state;
  std::vector<UniqueFd> dmabufs;      // of each BO, in the order of `state.bos`
  std::vector<std::string> refusals;  // why it cannot be saved: "<object>: <reason>"
};

/// `render_fd` may be a copy of another process's descriptor; that process must be stopped. The
/// state is whole only when there are no refusals. Work that was submitted is waited for, for at
/// most `idle_timeout_ms` in all. Throws Error{gpu} for calls that fail, Error{io}.
RenderSnapshot read_render_file(int render_fd, int idle_timeout_ms);

}  // namespace kfdcp
