// Submissions on one render file: contexts with their rings. Names of errors and `fd` as in
// core/drm/gem.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "core/drm/render_state.h"

namespace kfdcp::drm {

/// A kind of engine with rings to submit to.
struct RingKind {
  std::uint32_t ip;     // AMDGPU_HW_IP_*
  std::uint32_t rings;  // bit mask of those there are
};
std::vector<RingKind> ring_kinds(int fd);

enum class ContextState { none, usable, lost_work, pinned_clocks };
/// `lost_work`: a reset took something it had submitted; `pinned_clocks`: it gave the GPU a stable
/// power state.
ContextState context_state(int fd, std::uint32_t id);

/// 0, or the errno that a ring whose last submission failed answers every question with
/// (sched_entity.c:drm_sched_entity_error@7.3.4).
int ring_error(int fd, std::uint32_t context, std::uint32_t ip, std::uint32_t ring);

/// How often something was submitted to the ring, which has no error, found by asking for the
/// numbers: the kernel knows no other way. kMaxSubmissions + 1 stands for anything above the limit.
std::uint64_t count_submissions(int fd, std::uint32_t context, std::uint32_t ip,
                                std::uint32_t ring);

/// True when everything submitted to the ring is over, at the latest at `deadline_ns` of this
/// process's CLOCK_MONOTONIC.
bool wait_idle(int fd, std::uint32_t context, std::uint32_t ip, std::uint32_t ring,
               std::uint64_t deadline_ns);

/// A new context gets the lowest free id.
std::uint32_t create_context(int fd);
void free_context(int fd, std::uint32_t id);

/// True when the file has synchronisation objects (DRM_IOCTL_SYNCOBJ_*); the first 512 numbers are
/// looked at.
bool any_syncobj(int fd);

/// Submits work that does nothing, `times` times, to a ring of SDMA. Throws Error{gpu} (ETIME)
/// where that is not over after `limit`.
void submit_nothing(int fd, std::uint32_t context, std::uint32_t ring, std::uint64_t times,
                    std::chrono::nanoseconds limit = std::chrono::seconds(10));

}  // namespace kfdcp::drm
