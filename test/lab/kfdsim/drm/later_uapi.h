/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the user interface of the render node gained after Linux 6.12 for checkpoint and
 * restore of GEM handles; 6.12's headers lack it. Numbers and layouts as in Linux 7.x.
 * Used by the module and by its tests.
 */
#ifndef KFDSIM_LATER_UAPI_H
#define KFDSIM_LATER_UAPI_H

#include <drm/drm.h>

/* Driver ioctl 0x19: all GEM handles of the calling file. */
struct sim_gem_list_handles {
	__u64 entries;		/* user pointer to num_entries of the structure below */
	__u32 num_entries;	/* in: room; out: handles there are, nothing copied if more */
	__u32 padding;		/* 0 */
};

#define SIM_GEM_LIST_HANDLES_NR	0x19
#define DRM_IOCTL_SIM_GEM_LIST_HANDLES \
	DRM_IOWR(DRM_COMMAND_BASE + SIM_GEM_LIST_HANDLES_NR, struct sim_gem_list_handles)

#define SIM_GEM_HANDLE_IMPORT	(1 << 0)	/* the memory is another device's */

struct sim_gem_handle_entry {
	__u32 gem_handle;
	__u32 flags;		/* SIM_GEM_HANDLE_* */
	__u64 size;		/* bytes */
	__u64 preferred_domains; /* AMDGPU_GEM_DOMAIN_* */
	__u64 alloc_flags;	/* AMDGPU_GEM_CREATE_* that GEM_CREATE takes */
	__u64 alignment;	/* bytes */
};

/* GEM_OP grew by two fields for operation 2; a shorter structure is extended with zeros. */
struct sim_gem_op {
	__u32 handle;
	__u32 op;
	__u64 value;		/* operation 2: user pointer to num_entries of the below */
	__u32 num_entries;	/* as in sim_gem_list_handles */
	__u32 padding;		/* 0 */
};

#define SIM_GEM_OP_GET_MAPPING_INFO 2
#define DRM_IOCTL_SIM_GEM_OP DRM_IOWR(DRM_COMMAND_BASE + 0x10, struct sim_gem_op)

/* One mapping of the BO in the GPU address space of the calling file. */
struct sim_gem_vm_entry {
	__u64 addr;		/* GPU address */
	__u64 size;		/* bytes */
	__u64 offset;		/* bytes into the BO */
	__u64 flags;		/* AMDGPU_VM_PAGE_* as given to GEM_VA */
};

/* Core ioctl 0xd2: let the object of handle be called new_handle from now on. */
struct sim_gem_change_handle {
	__u32 handle;
	__u32 new_handle;
};

#define DRM_IOCTL_SIM_GEM_CHANGE_HANDLE	DRM_IOWR(0xd2, struct sim_gem_change_handle)

#endif
