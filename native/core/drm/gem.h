// GEM handles of one render file: reading and creating them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/drm/render_state.h"
#include "core/os/fd.h"

namespace kfdcp::drm {

/// Every function throws Error{gpu} "<call> ...: <strerror>" unless it says otherwise. `fd` may be
/// a copy of another process's descriptor: GEM state belongs to the struct file.

struct GemHandle {
  std::uint32_t handle;
  bool imported;  // its memory belongs to another device or driver
  std::uint64_t size;
  std::uint64_t domains;
  std::uint64_t flags;
  std::uint64_t alignment;
};

/// All handles, in the order of their numbers; nullopt on kernels that cannot list them (up
/// to 6.17).
std::optional<std::vector<GemHandle>> list_handles(int fd);

/// Whether there is a handle at all, for kernels that cannot list them: looks at the first numbers,
/// since each new handle gets the lowest free one.
bool any_handle(int fd);

/// Where the BO of `handle` is mapped, with `bo` as the position in each record; nullopt on kernels
/// that do not report it.
std::optional<std::vector<GemMapping>> mappings_of(int fd, std::uint32_t handle, std::uint32_t bo);

/// 0 when the CPU must not map it.
std::uint64_t mmap_offset(int fd, std::uint32_t handle);

/// nullopt when the kernel does not let it be shared (userptr, bound to one address space).
std::optional<UniqueFd> export_dmabuf(int fd, std::uint32_t handle);

/// nullopt when nothing is stored with it.
std::optional<GemMetadata> metadata_of(int fd, std::uint32_t handle, std::uint32_t bo);
void set_metadata(int fd, std::uint32_t handle, const GemMetadata& metadata);

/// Where the BO may be, AMDGPU_GEM_DOMAIN_*. Where VRAM is full, the kernel makes one that was to
/// be in VRAM alone in GTT, and adds that here (amdgpu_gem.c:amdgpu_gem_create_ioctl@6.12.117).
std::uint64_t domains_of(int fd, std::uint32_t handle);

/// The lowest free number becomes the handle of a new BO.
std::uint32_t create_bo(int fd, std::uint64_t size, std::uint64_t alignment, std::uint64_t domains,
                        std::uint64_t flags);
/// The handle the file has for this BO already, or else the lowest free number.
std::uint32_t import_dmabuf(int fd, int dmabuf);
void close_handle(int fd, std::uint32_t handle);
/// False where the kernel has no GEM_CHANGE_HANDLE or has it switched off.
bool can_change_handles(int fd);
void change_handle(int fd, std::uint32_t from, std::uint32_t to);

/// The address may be one that mappings_of() gave: without the sign bits of the high half.
void map_va(int fd, std::uint32_t handle, const GemMapping& mapping);

}  // namespace kfdcp::drm
