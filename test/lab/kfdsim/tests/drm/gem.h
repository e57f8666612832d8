/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Bare GEM calls for the tests: handles, dma-bufs. Calls return 0 or -errno. */
#ifndef KFDSIM_TEST_GEM_H
#define KFDSIM_TEST_GEM_H

#include <amdgpu_drm.h>
#include <sys/stat.h>
#include <xf86drm.h>

#include "kfd/kfd.h"
#include "drm/later_uapi.h"

#define KIB 1024ull
#define MIB (1024ull * KIB)
#define VA 0x200000000ull
#define MAP_FLAGS (AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE)

static inline int open_node(void)
{
	int fd = open(RENDER_NODE, O_RDWR | O_CLOEXEC);

	MUST(fd >= 0);
	return fd;
}

static inline uint32_t create(int fd, uint64_t size, uint64_t domains, uint64_t flags)
{
	union drm_amdgpu_gem_create c = { .in = { .bo_size = size, .domains = domains,
						  .domain_flags = flags, .alignment = 8192 } };

	MUST(!try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &c));
	return c.out.handle;
}

static inline int map_va(int fd, uint32_t handle, uint64_t va, uint64_t size, uint64_t offset)
{
	struct drm_amdgpu_gem_va a = { .handle = handle, .operation = AMDGPU_VA_OP_MAP,
				       .flags = MAP_FLAGS, .va_address = va, .map_size = size,
				       .offset_in_bo = offset };

	return try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &a);
}

static inline uint32_t *map_dmabuf(int dmabuf, uint64_t size)
{
	uint32_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);

	MUST(p != MAP_FAILED);
	return p;
}

static inline ino_t inode(int fd)
{
	struct stat st;

	MUST(!fstat(fd, &st));
	return st.st_ino;
}

static inline int share(int fd, uint32_t handle)
{
	int dmabuf;

	MUST(!drmPrimeHandleToFD(fd, handle, DRM_RDWR | DRM_CLOEXEC, &dmabuf));
	return dmabuf;
}

/* How many handles fd has; entries has room for *n. */
static inline int list_handles(int fd, struct sim_gem_handle_entry *entries, uint32_t *n)
{
	struct sim_gem_list_handles a = { .entries = (uintptr_t)entries, .num_entries = *n };
	int ret = try_ioctl(fd, DRM_IOCTL_SIM_GEM_LIST_HANDLES, &a);

	*n = a.num_entries;
	return ret;
}

#endif
