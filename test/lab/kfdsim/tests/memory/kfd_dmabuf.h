/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* KFD memory as dma-bufs, for the tests. Calls return 0 or -errno. */
#ifndef KFDSIM_TEST_KFD_DMABUF_H
#define KFDSIM_TEST_KFD_DMABUF_H

#include "kfd/kfd.h"

static inline int import_kfd(const struct gpu *g, struct memory *m, int dmabuf, uint32_t gpu, uint64_t va,
			     uint64_t size)
{
	struct kfd_ioctl_import_dmabuf_args a = { .va_addr = va, .gpu_id = gpu,
						  .dmabuf_fd = dmabuf };
	int ret = try_ioctl(g->kfd, AMDKFD_IOC_IMPORT_DMABUF, &a);

	*m = (struct memory){ .handle = a.handle, .va = va, .size = size };
	return ret;
}

/* The descriptor, or -errno. */
static inline int export_kfd(const struct gpu *g, uint64_t handle)
{
	struct kfd_ioctl_export_dmabuf_args a = { .handle = handle, .flags = O_CLOEXEC };
	int ret = try_ioctl(g->kfd, AMDKFD_IOC_EXPORT_DMABUF, &a);

	return ret ? ret : (int)a.dmabuf_fd;
}

#endif
