// A library for LD_PRELOAD that watches the DRM ioctls of a program and can make one of them fail.
//
// At exit it prints to stderr how many ioctls could have failed and what was never released:
//   drm_audit: 118 calls, live: 0 handles 0 mappings 0 lists 0 contexts, addresses up to
//   0x120600000
// DRM_AUDIT_FAIL=N makes the Nth of those calls, counted from 0, fail with ENOMEM. Releasing calls
// are never made to fail, nor is DRM_IOCTL_VERSION: no kernel fails it on a DRM file, and libdrm
// reads a null pointer when it does. Not thread-safe: for programs that use one thread.
#include <amdgpu_drm.h>
#include <dlfcn.h>
#include <drm.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

namespace {

constexpr unsigned kDriver = DRM_COMMAND_BASE;

class Audit {
 public:
  Audit() {
    const char* fail = std::getenv("DRM_AUDIT_FAIL");
    if (fail != nullptr) fail_ = std::strtoll(fail, nullptr, 10);
  }
  ~Audit() {
    std::fprintf(stderr,
                 "drm_audit: %lld calls, live: %zu handles %lld mappings %lld lists %lld contexts, "
                 "addresses up to 0x%llx\n",
                 calls_, handles_.size(), mappings_, lists_, contexts_,
                 static_cast<unsigned long long>(top_));
  }

  /// Whether this call is the one to fail.
  bool fails(unsigned nr, bool release) {
    return !release && nr != _IOC_NR(DRM_IOCTL_VERSION) && calls_++ == fail_;
  }

  /// Takes note of a call that succeeded; `release` was asked before, as the kernel may overwrite
  /// the argument.
  void note(int fd, unsigned nr, const void* argument, bool release) {
    switch (nr) {
      case _IOC_NR(DRM_IOCTL_GEM_CLOSE):
        handles_.erase({fd, static_cast<const drm_gem_close*>(argument)->handle});
        break;
      case _IOC_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
        handles_.insert({fd, static_cast<const drm_prime_handle*>(argument)->handle});
        break;
      case kDriver + DRM_AMDGPU_GEM_CREATE:
        handles_.insert({fd, static_cast<const drm_amdgpu_gem_create*>(argument)->out.handle});
        break;
      case kDriver + DRM_AMDGPU_GEM_USERPTR:
        handles_.insert({fd, static_cast<const drm_amdgpu_gem_userptr*>(argument)->handle});
        break;
      case kDriver + DRM_AMDGPU_GEM_VA: {
        const auto* va = static_cast<const drm_amdgpu_gem_va*>(argument);
        top_ = std::max<std::uint64_t>(top_, va->va_address + va->map_size);
        mappings_ += release ? -1 : 1;
        break;
      }
      case kDriver + DRM_AMDGPU_BO_LIST:
        lists_ += release ? -1 : 1;
        break;
      case kDriver + DRM_AMDGPU_CTX:
        contexts_ += release ? -1 : 1;
        break;
      default:
        break;
    }
  }

  static bool releases(unsigned nr, const void* argument) {
    switch (nr) {
      case _IOC_NR(DRM_IOCTL_GEM_CLOSE):
        return true;
      case kDriver + DRM_AMDGPU_GEM_VA:
        return static_cast<const drm_amdgpu_gem_va*>(argument)->operation == AMDGPU_VA_OP_UNMAP;
      case kDriver + DRM_AMDGPU_BO_LIST:
        return static_cast<const drm_amdgpu_bo_list*>(argument)->in.operation ==
               AMDGPU_BO_LIST_OP_DESTROY;
      case kDriver + DRM_AMDGPU_CTX:
        return static_cast<const drm_amdgpu_ctx*>(argument)->in.op == AMDGPU_CTX_OP_FREE_CTX;
      default:
        return false;
    }
  }

 private:
  std::set<std::pair<int, std::uint32_t>> handles_;
  long long mappings_ = 0;
  long long lists_ = 0;
  long long contexts_ = 0;
  long long calls_ = 0;
  long long fail_ = -1;
  std::uint64_t top_ = 0;
};

Audit& audit() {
  static Audit instance;
  return instance;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request,
                                                            ...) noexcept {
  va_list list;
  va_start(list, request);
  void* argument = va_arg(list, void*);
  va_end(list);
  using Ioctl = int (*)(int, unsigned long, ...);
  static const auto real = reinterpret_cast<Ioctl>(::dlsym(RTLD_NEXT, "ioctl"));

  if (_IOC_TYPE(request) != DRM_IOCTL_BASE) return real(fd, request, argument);
  const unsigned nr = _IOC_NR(request);
  const bool release = Audit::releases(nr, argument);
  if (audit().fails(nr, release)) {
    errno = ENOMEM;
    return -1;
  }
  const int result = real(fd, request, argument);
  if (result == 0) audit().note(fd, nr, argument, release);
  return result;
}
