// What AMDGPU_INFO tells about the GPU of a render file.
#pragma once

#include <amdgpu_drm.h>

#include <cstdint>

#include "core/os/device_call.h"

namespace kfdcp::drm {

/// Asks for `args.query`; 0 or the errno.
template <class T>
int ask_info(int fd, drm_amdgpu_info& args, T& answer) {
  args.return_pointer = reinterpret_cast<std::uintptr_t>(&answer);
  args.return_size = sizeof(answer);
  return call_device(fd, DRM_IOCTL_AMDGPU_INFO, &args);
}

/// Throws Error{gpu}.
inline drm_amdgpu_info_device device_info(int fd) {
  drm_amdgpu_info args{};
  args.query = AMDGPU_INFO_DEV_INFO;
  drm_amdgpu_info_device info{};
  if (const int err = ask_info(fd, args, info)) throw call_error("INFO_DEV_INFO", err);
  return info;
}

}  // namespace kfdcp::drm
