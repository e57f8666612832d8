#include "core/gem_probe.h"

#include <amdgpu_drm.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdint>

namespace kfdcp {

namespace {

// A process that made objects and freed the first ones leaves holes; this many are looked through.
constexpr unsigned kHandles = 512;
constexpr unsigned kContexts = 64;

/// As libdrm's drmIoctl, which the CRIU plugin must not depend on.
int drm_ioctl(int fd, unsigned long request, void* argument) {
  int result;
  do {
    result = ::ioctl(fd, request, argument);
  } while (result == -1 && (errno == EINTR || errno == EAGAIN));
  return result;
}

}  // namespace

bool owns_gem_objects(int render_fd) {
  for (unsigned handle = 1; handle <= kHandles; ++handle) {
    drm_amdgpu_gem_create_in info{};
    drm_amdgpu_gem_op op{};
    op.handle = handle;
    op.op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO;
    op.value = reinterpret_cast<std::uintptr_t>(&info);
    if (drm_ioctl(render_fd, DRM_IOCTL_AMDGPU_GEM_OP, &op) == 0 || errno != ENOENT) return true;
  }
  return false;
}

bool owns_contexts(int render_fd) {
  for (unsigned id = 1; id <= kContexts; ++id) {
    drm_amdgpu_ctx query{};
    query.in.op = AMDGPU_CTX_OP_QUERY_STATE2;
    query.in.ctx_id = id;
    if (drm_ioctl(render_fd, DRM_IOCTL_AMDGPU_CTX, &query) == 0 || errno != EINVAL) return true;
  }
  return false;
}

}  // namespace kfdcp
