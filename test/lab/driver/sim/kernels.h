/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Differences between the drivers of the lab's two kernels: the guest's (6.12) and the following one (7.3). All other
 * sources are the same for both. An entry names the place in the driver and the kernel.
 */
#ifndef SIM_KERNELS_H
#define SIM_KERNELS_H

#include <linux/idr.h>
#include <linux/version.h>
#include <linux/xarray.h>

#include "amdgpu.h"
#include "amdgpu_discovery.h"

#define SIM_NEXT_KERNEL (LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0))

/*
 * amd_shared.h:struct amd_ip_funcs. @ 7.3.4 functions of a block get the block. @ 6.12.117 all but early_init get the
 * device.
 */
#if SIM_NEXT_KERNEL
typedef struct amdgpu_ip_block sim_block;
static inline struct amdgpu_device *sim_block_device(sim_block *block)
{
	return block->adev;
}
#else
typedef void sim_block;
static inline struct amdgpu_device *sim_block_device(sim_block *block)
{
	return block;
}
#endif

/*
 * amdgpu_discovery.h:amdgpu_discovery_get_nps_info. @ 7.3.4 it fills an array of its caller; @ 6.12.117 it allocates
 * one.
 */
#if SIM_NEXT_KERNEL
#define SIM_NPS_RANGES	struct amdgpu_gmc_memrange *ranges, int *range_cnt, bool refresh
#else
#define SIM_NPS_RANGES	struct amdgpu_gmc_memrange **ranges, int *range_cnt
#endif

/* amdgpu_ctx.h:struct amdgpu_ctx_mgr. @ 7.3.4 contexts are in an xarray; @ 6.12.117 they are in an idr with a mutex. */
static inline unsigned int sim_contexts(struct amdgpu_ctx_mgr *mgr)
{
	unsigned int n = 0;
	struct amdgpu_ctx *ctx;
#if SIM_NEXT_KERNEL
	unsigned long id;

	xa_for_each(&mgr->ctx_handles, id, ctx)
		n++;
#else
	int id;

	mutex_lock(&mgr->lock);
	idr_for_each_entry(&mgr->ctx_handles, ctx, id)
		n++;
	mutex_unlock(&mgr->lock);
#endif
	return n;
}

#endif
