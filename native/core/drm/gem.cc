#include "core/drm/gem.h"

#include <amdgpu_drm.h>
#include <drm.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/drm/device_info.h"
#include "core/os/device_call.h"

namespace kfdcp::drm {

namespace {

// Debian 12's headers lack these (include/uapi/drm/amdgpu_drm.h and drm.h of Linux 7.x).
struct GemListHandles {
  std::uint64_t entries;      // user pointer
  std::uint32_t num_entries;  // in: room; out: handles there are; nothing is copied if more
  std::uint32_t padding;
};
struct GemListEntry {
  std::uint32_t handle;
  std::uint32_t flags;  // bit 0: imported
  std::uint64_t size;
  std::uint64_t domains;
  std::uint64_t alloc_flags;
  std::uint64_t alignment;
};
struct GemOp {  // grew by the last two for operation 2
  std::uint32_t handle;
  std::uint32_t op;
  std::uint64_t value;  // user pointer
  std::uint32_t num_entries;
  std::uint32_t padding;
};
struct GemVmEntry {
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t offset;
  std::uint64_t flags;
};
struct GemChangeHandle {
  std::uint32_t handle;
  std::uint32_t new_handle;
};
static_assert(sizeof(GemListEntry) == 40 && sizeof(GemOp) == 24 && sizeof(GemVmEntry) == 32);

constexpr unsigned long kListHandles = DRM_IOWR(DRM_COMMAND_BASE + 0x19, GemListHandles);
constexpr unsigned long kGemOp = DRM_IOWR(DRM_COMMAND_BASE + DRM_AMDGPU_GEM_OP, GemOp);
constexpr unsigned long kChangeHandle = DRM_IOWR(0xd2, GemChangeHandle);
constexpr std::uint32_t kOpGetMappingInfo = 2;

// A process that freed its first objects leaves holes in the ids. So many ids are tried.
constexpr unsigned kProbedHandles = 512;
// Handles and mappings of a stopped process do not change. Two more tries are for a process that
// ends.
constexpr int kTries = 3;
constexpr std::uint32_t kMaxHandle = 0x7ffffffe;  // an int, and the end of a range that is one

std::string handle_text(const char* call, std::uint32_t handle) {
  return std::string(call) + " of GEM handle " + std::to_string(handle);
}

/// Asks `ask(items)` until its answer, the count there is, fits in `items`. nullopt for EINVAL.
template <class T, class Ask>
std::optional<std::vector<T>> read_all(const std::string& what, Ask&& ask) {
  std::vector<T> items;
  for (int i = 0; i < kTries; ++i) {
    std::uint32_t there = 0;
    const int err = ask(items, there);
    if (err == EINVAL) return std::nullopt;
    if (err != 0) throw call_error(what, err);
    const bool fitted = there <= items.size();
    items.resize(there);
    if (fitted) return items;
  }
  throw call_error(what, EAGAIN);
}

/// The error number, or 0.
int create_info(int fd, std::uint32_t handle, drm_amdgpu_gem_create_in& info) {
  drm_amdgpu_gem_op op{};
  op.handle = handle;
  op.op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO;
  op.value = reinterpret_cast<std::uintptr_t>(&info);
  return call_device(fd, DRM_IOCTL_AMDGPU_GEM_OP, &op);
}

}  // namespace

std::optional<std::vector<GemHandle>> list_handles(int fd) {
  auto entries = read_all<GemListEntry>("GEM_LIST_HANDLES", [fd](auto& room, std::uint32_t& there) {
    GemListHandles args{};
    args.entries = reinterpret_cast<std::uintptr_t>(room.data());
    args.num_entries = static_cast<std::uint32_t>(room.size());
    const int err = call_device(fd, kListHandles, &args);
    there = args.num_entries;
    return err;
  });
  if (!entries) return std::nullopt;
  std::ranges::sort(*entries, {}, &GemListEntry::handle);
  std::vector<GemHandle> handles;
  for (const GemListEntry& entry : *entries) {
    handles.push_back({entry.handle, (entry.flags & 1) != 0, entry.size, entry.domains,
                       entry.alloc_flags, entry.alignment});
  }
  return handles;
}

bool any_handle(int fd) {
  for (unsigned handle = 1; handle <= kProbedHandles; ++handle) {
    drm_amdgpu_gem_create_in info{};
    if (create_info(fd, handle, info) != ENOENT) return true;
  }
  return false;
}

std::uint64_t domains_of(int fd, std::uint32_t handle) {
  drm_amdgpu_gem_create_in info{};
  const int err = create_info(fd, handle, info);
  if (err != 0) throw call_error(handle_text("GEM_OP", handle), err);
  return info.domains;
}

std::optional<std::vector<GemMapping>> mappings_of(int fd, std::uint32_t handle, std::uint32_t bo) {
  const auto entries = read_all<GemVmEntry>(
      handle_text("GET_MAPPING_INFO", handle), [&](auto& room, std::uint32_t& there) {
        GemOp args{};
        args.handle = handle;
        args.op = kOpGetMappingInfo;
        args.value = reinterpret_cast<std::uintptr_t>(room.data());
        args.num_entries = static_cast<std::uint32_t>(room.size());
        const int err = call_device(fd, kGemOp, &args);
        there = args.num_entries;
        return err;
      });
  if (!entries) return std::nullopt;
  std::vector<GemMapping> mappings;
  for (const GemVmEntry& entry : *entries) {
    mappings.push_back({bo, 0, entry.address, entry.size, entry.offset, entry.flags});
  }
  return mappings;
}

std::uint64_t mmap_offset(int fd, std::uint32_t handle) {
  drm_amdgpu_gem_mmap args{};
  args.in.handle = handle;
  const int err = call_device(fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &args);
  if (err == EPERM) return 0;
  if (err != 0) throw call_error(handle_text("GEM_MMAP", handle), err);
  return args.out.addr_ptr;
}

std::optional<UniqueFd> export_dmabuf(int fd, std::uint32_t handle) {
  drm_prime_handle args{};
  args.handle = handle;
  args.flags = DRM_CLOEXEC | DRM_RDWR;
  args.fd = -1;
  const int err = call_device(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args);
  if (err == EPERM) return std::nullopt;
  if (err != 0) throw call_error(handle_text("PRIME_HANDLE_TO_FD", handle), err);
  return UniqueFd(args.fd);
}

std::optional<GemMetadata> metadata_of(int fd, std::uint32_t handle, std::uint32_t bo) {
  drm_amdgpu_gem_metadata args{};
  args.handle = handle;
  args.op = AMDGPU_GEM_METADATA_OP_GET_METADATA;
  must_call(fd, DRM_IOCTL_AMDGPU_GEM_METADATA, &args, handle_text("GEM_METADATA", handle));
  GemMetadata metadata{bo, args.data.data_size_bytes, args.data.flags, args.data.tiling_info, {}};
  if (metadata.bytes > sizeof(metadata.data)) {
    throw call_error(handle_text("GEM_METADATA", handle), EOVERFLOW);
  }
  std::memcpy(metadata.data.data(), args.data.data, metadata.bytes);
  if (metadata.bytes == 0 && metadata.flags == 0 && metadata.tiling == 0) return std::nullopt;
  return metadata;
}

void set_metadata(int fd, std::uint32_t handle, const GemMetadata& metadata) {
  drm_amdgpu_gem_metadata args{};
  args.handle = handle;
  args.op = AMDGPU_GEM_METADATA_OP_SET_METADATA;
  args.data.flags = metadata.flags;
  args.data.tiling_info = metadata.tiling;
  args.data.data_size_bytes = metadata.bytes;
  std::memcpy(args.data.data, metadata.data.data(), sizeof(args.data.data));
  must_call(fd, DRM_IOCTL_AMDGPU_GEM_METADATA, &args, handle_text("GEM_METADATA", handle));
}

std::uint32_t create_bo(int fd, std::uint64_t size, std::uint64_t alignment, std::uint64_t domains,
                        std::uint64_t flags) {
  drm_amdgpu_gem_create args{};
  args.in.bo_size = size;
  args.in.alignment = alignment;
  args.in.domains = domains;
  args.in.domain_flags = flags;
  must_call(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args,
            "GEM_CREATE of " + std::to_string(size) + " bytes");
  return args.out.handle;
}

std::uint32_t import_dmabuf(int fd, int dmabuf) {
  drm_prime_handle args{};
  args.fd = dmabuf;
  must_call(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args, "PRIME_FD_TO_HANDLE");
  return args.handle;
}

void close_handle(int fd, std::uint32_t handle) {
  drm_gem_close args{};
  args.handle = handle;
  must_call(fd, DRM_IOCTL_GEM_CLOSE, &args, handle_text("GEM_CLOSE", handle));
}

bool can_change_handles(int fd) {
  GemChangeHandle args{kMaxHandle, kMaxHandle - 1};
  return call_device(fd, kChangeHandle, &args) == ENOENT;
}

void change_handle(int fd, std::uint32_t from, std::uint32_t to) {
  GemChangeHandle args{from, to};
  must_call(fd, kChangeHandle, &args, handle_text("GEM_CHANGE_HANDLE", from));
}

namespace {

/// An address as GEM_VA takes it. The kernel keeps and reports addresses of the high half without
/// their sign bits (amdgpu_gem.c:amdgpu_gem_va_ioctl@7.3.4), and refuses them like that.
std::uint64_t with_sign(int fd, std::uint64_t address) {
  constexpr std::uint64_t kLowestHighHalf = 1ull << 47;
  if (address < kLowestHighHalf) return address;
  const std::uint64_t high_half = device_info(fd).high_va_offset;  // 0: there is none
  const std::uint64_t low_end = ~high_half + 1;                    // both halves are equally large
  return high_half != 0 && address >= low_end ? address | high_half : address;
}

}  // namespace

void map_va(int fd, std::uint32_t handle, const GemMapping& mapping) {
  drm_amdgpu_gem_va args{};
  args.handle = handle;
  args.operation = AMDGPU_VA_OP_MAP;
  args.flags = static_cast<std::uint32_t>(mapping.flags);
  args.va_address = with_sign(fd, mapping.address);
  args.offset_in_bo = mapping.offset;
  args.map_size = mapping.size;
  must_call(fd, DRM_IOCTL_AMDGPU_GEM_VA, &args, handle_text("GEM_VA", handle));
}

}  // namespace kfdcp::drm
