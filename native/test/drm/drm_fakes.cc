#include "test/drm/drm_fakes.h"

#include <amdgpu_drm.h>
#include <drm.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "test/drm/drm_fake_parts.h"

namespace kfdcp::test {

namespace {

FakeDrm* current = nullptr;

ino_t inode(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

/// Reads and writes the 64-bit field at `index` of an argument: layouts the headers do not know.
struct Words {
  std::uint64_t* words;
  std::uint32_t low(int i) const { return static_cast<std::uint32_t>(words[i]); }
  void set_low(int i, std::uint32_t value) { words[i] = (words[i] >> 32 << 32) | value; }
};

}  // namespace

FakeDrm::FakeDrm() : old_(std::exchange(ioctl_fn, system_call)) { current = this; }
FakeDrm::~FakeDrm() {
  ioctl_fn = old_;
  current = nullptr;
}

int FakeDrm::system_call(int fd, unsigned long request, void* argument) {
  const int err = current->answer(fd, request, argument);
  if (err == 0) return 0;
  errno = err;
  return -1;
}

int FakeDrm::answer(int fd, unsigned long request, void* argument) {
  ++calls;
  if (const auto fail = fails.find(request); fail != fails.end()) return fail->second;
  File& file = files_[fd];
  switch (number_of(request)) {
    case 0x2d:  // PRIME_HANDLE_TO_FD
    case 0x2e:
      return prime_call(file, request, argument);
    case DRM_COMMAND_BASE + DRM_AMDGPU_CTX:
    case DRM_COMMAND_BASE + DRM_AMDGPU_BO_LIST:
    case DRM_COMMAND_BASE + DRM_AMDGPU_CS:
    case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_CS:
    case DRM_COMMAND_BASE + DRM_AMDGPU_INFO:
      return work_call(file, request, argument);
    case 0xcb: {  // SYNCOBJ_QUERY
      const auto& args = *static_cast<drm_syncobj_timeline_array*>(argument);
      return file.syncobjs.contains(*at<std::uint32_t>(args.handles)) ? 0 : ENOENT;
    }
    default:
      return handle_call(file, request, argument);
  }
}

int FakeDrm::prime_call(File& file, unsigned long request, void* argument) {
  auto& args = *static_cast<drm_prime_handle*>(argument);
  if (number_of(request) == 0x2d) {
    const auto found = file.handles.find(args.handle);
    if (found == file.handles.end()) return ENOENT;
    const Bo& bo = *found->second;
    if (bo.userptr || (bo.flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID) != 0) return EPERM;
    args.fd = ::fcntl(bo.memfd.get(), F_DUPFD_CLOEXEC, 0);
    return 0;
  }
  for (const auto& [fd, other] : files_) {
    for (const auto& [handle, bo] : other.handles) {
      if (inode(bo->memfd.get()) != inode(args.fd)) continue;
      for (const auto& [own, same] : file.handles) {
        if (same == bo) return args.handle = own, 0;
      }
      args.handle = insert_lowest(file.handles, bo);
      return 0;
    }
  }
  return EINVAL;
}

int FakeDrm::handle_call(File& file, unsigned long request, void* argument) {
  const auto known = [&](std::uint32_t handle) { return file.handles.contains(handle); };
  Words words{static_cast<std::uint64_t*>(argument)};
  switch (number_of(request)) {
    case 0x09: {  // GEM_CLOSE
      const std::uint32_t handle = static_cast<drm_gem_close*>(argument)->handle;
      if (file.handles.erase(handle) == 0) return EINVAL;
      std::erase_if(file.mappings, [&](const auto& entry) { return entry.second.bo == handle; });
      return 0;
    }
    case 0xd2: {  // GEM_CHANGE_HANDLE
      if (change_handle != Interface::working) return EINVAL;
      const std::uint32_t from = words.low(0),
                          to = static_cast<std::uint32_t>(words.words[0] >> 32);
      if (!known(from)) return ENOENT;
      if (known(to)) return ENOSPC;
      file.handles[to] = file.handles[from];
      file.handles.erase(from);
      for (auto& [address, mapping] : file.mappings) {
        if (mapping.bo == from) mapping.bo = to;
      }
      return 0;
    }
    case DRM_COMMAND_BASE + 0x19: {  // GEM_LIST_HANDLES: entries, count
      if (list_handles != Interface::working) return EINVAL;
      const std::uint32_t room = words.low(1);
      words.set_low(1, static_cast<std::uint32_t>(file.handles.size()));
      if (file.handles.size() > room) return 0;
      auto* out = at<std::uint64_t>(words.words[0]);
      for (const auto& [handle, bo] : file.handles) {
        *out++ = handle | std::uint64_t{bo->imported} << 32;
        for (const std::uint64_t word : {bo->size, bo->domains, bo->flags, bo->alignment}) {
          *out++ = word;
        }
      }
      return 0;
    }
    case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_OP: {  // handle and op, pointer, count
      if (!known(words.low(0))) return ENOENT;
      if (words.words[0] >> 32 == AMDGPU_GEM_OP_GET_GEM_CREATE_INFO) {
        const Bo& bo = *file.handles.at(words.low(0));
        *at<drm_amdgpu_gem_create_in>(words.words[1]) = {bo.size, bo.alignment, bo.domains,
                                                         bo.flags};
        return 0;
      }
      if (words.words[0] >> 32 != 2 || mapping_info != Interface::working) return EINVAL;
      std::vector<GemMapping> found;
      for (const auto& [address, mapping] : file.mappings) {
        if (mapping.bo == words.low(0)) found.insert(found.begin(), mapping);
      }
      const std::uint32_t room = words.low(2);
      words.set_low(2, static_cast<std::uint32_t>(found.size()));
      if (found.size() > room) return 0;
      auto* out = at<std::uint64_t>(words.words[1]);
      for (const GemMapping& m : found) {
        for (const std::uint64_t word : {m.address, m.size, m.offset, m.flags}) *out++ = word;
      }
      return 0;
    }
    case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE: {
      auto& args = *static_cast<drm_amdgpu_gem_create*>(argument);
      auto bo = std::make_shared<Bo>();
      bo->size = args.in.bo_size;
      bo->alignment = args.in.alignment;
      bo->domains = args.in.domains;
      bo->flags = args.in.domain_flags;
      bo->offset = next_offset_;
      next_offset_ += bo->size;
      bo->memfd = UniqueFd(::memfd_create("bo", MFD_CLOEXEC));
      if (::ftruncate(bo->memfd.get(), static_cast<off_t>(bo->size)) != 0) return errno;
      args.out.handle = insert_lowest(file.handles, std::move(bo));
      return 0;
    }
    case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP: {
      auto& args = *static_cast<drm_amdgpu_gem_mmap*>(argument);
      if (!known(args.in.handle)) return ENOENT;
      const Bo& bo = *file.handles[args.in.handle];
      if ((bo.flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS) != 0) return EPERM;
      args.out.addr_ptr = bo.offset;
      return 0;
    }
    case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_METADATA: {
      auto& args = *static_cast<drm_amdgpu_gem_metadata*>(argument);
      if (!known(args.handle)) return ENOENT;
      GemMetadata& own = file.handles[args.handle]->metadata;
      if (args.op == AMDGPU_GEM_METADATA_OP_SET_METADATA) {
        own = {0, args.data.data_size_bytes, args.data.flags, args.data.tiling_info, {}};
        std::memcpy(own.data.data(), args.data.data, sizeof(own.data));
      } else {
        args.data.flags = own.flags;
        args.data.tiling_info = own.tiling;
        args.data.data_size_bytes = own.bytes;
        std::memcpy(args.data.data, own.data.data(), sizeof(own.data));
      }
      return 0;
    }
    case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_VA: {
      auto& args = *static_cast<drm_amdgpu_gem_va*>(argument);
      if (!known(args.handle)) return ENOENT;
      // The kernel keeps addresses without the sign of the high half.
      const std::uint64_t low_end = high_half == 0 ? 1ull << 47 : -high_half;
      if (args.va_address >= low_end && (high_half == 0 || args.va_address < high_half)) {
        return EINVAL;
      }
      args.va_address &= 2 * low_end - 1;
      for (const auto& [address, m] : file.mappings) {
        if (args.va_address < address + m.size && address < args.va_address + args.map_size) {
          return EINVAL;
        }
      }
      file.mappings[args.va_address] = {
          args.handle, 0, args.va_address, args.map_size, args.offset_in_bo, args.flags};
      return 0;
    }
    default:
      return EINVAL;
  }
}

}  // namespace kfdcp::test
