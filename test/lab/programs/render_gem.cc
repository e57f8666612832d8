#include "render_gem.h"

#include <amdgpu_drm.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <xf86drm.h>

#include <cerrno>
#include <cstring>

#include "core/os/error.h"

namespace lab {

void check_drm(int result, const char* what) {
  if (result == 0) return;
  const int err = result == -1 ? errno : -result;
  throw kfdcp::Error(kfdcp::ErrorCode::gpu, std::string(what) + ": " + std::strerror(err), err);
}

kfdcp::UniqueFd open_node(const std::string& node) {
  kfdcp::UniqueFd file(open(node.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) throw kfdcp::io_error(node);
  return file;
}

std::uint32_t create_gem(const kfdcp::UniqueFd& file, std::size_t bytes) {
  drm_amdgpu_gem_create args{};
  args.in.bo_size = bytes;
  args.in.alignment = 4096;
  args.in.domains = AMDGPU_GEM_DOMAIN_GTT;
  check_drm(drmCommandWriteRead(file.get(), DRM_AMDGPU_GEM_CREATE, &args, sizeof args),
            "allocating a GEM BO");
  return args.out.handle;
}

kfdcp::UniqueFd export_gem(const kfdcp::UniqueFd& file, std::uint32_t handle) {
  int fd = -1;
  check_drm(drmPrimeHandleToFD(file.get(), handle, DRM_CLOEXEC | DRM_RDWR, &fd),
            "exporting a GEM BO");
  return kfdcp::UniqueFd(fd);
}

std::uint32_t import_gem(const kfdcp::UniqueFd& file, const kfdcp::UniqueFd& dmabuf) {
  std::uint32_t handle = 0;
  check_drm(drmPrimeFDToHandle(file.get(), dmabuf.get(), &handle), "importing a BO");
  return handle;
}

kfdcp::Mapping map_gem(const kfdcp::UniqueFd& file, std::uint32_t handle, std::size_t bytes) {
  drm_amdgpu_gem_mmap args{};
  args.in.handle = handle;
  check_drm(drmCommandWriteRead(file.get(), DRM_AMDGPU_GEM_MMAP, &args, sizeof args),
            "finding a BO");
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                    static_cast<off_t>(args.out.addr_ptr));
  if (base == MAP_FAILED) throw kfdcp::io_error("mapping a BO");
  return {base, bytes};
}

void close_gem(const kfdcp::UniqueFd& file, std::uint32_t handle) {
  check_drm(drmCloseBufferHandle(file.get(), handle), "closing a GEM handle");
}

}  // namespace lab
