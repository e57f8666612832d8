// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * How much memory KFD lets its processes have: amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_reserve_mem_limit,
 * amdgpu_amdkfd_gpuvm_init_mem_limits, amdgpu_amdkfd_get_available_memory @ 6.12.117. What GEM has does not count here.
 */
#include <linux/delay.h>
#include <linux/mm.h>

#include "kfdsim.h"

#define SIM_LEAST_RESERVE	(8ULL << 20)	/* amdgpu_vm.h:AMDGPU_VM_RESERVED_VRAM */
#define SIM_SYSTEM_RESERVE	(3ULL << 29)	/* amdgpu_amdkfd_gpuvm.c:AMDGPU_RESERVE_MEM_LIMIT */
#define SIM_AVAILABLE_UNIT	(2ULL << 20)	/* the same: VRAM_AVAILABLITY_ALIGN */

static unsigned int release_ms;
module_param(release_ms, uint, 0644);
MODULE_PARM_DESC(release_ms, "ms from the end of a KFD process until its memory is free again (default 0)");

static DEFINE_SPINLOCK(limits_lock);
static u64 system_used, gtt_used;	/* bytes of all GPUs */

/* Pages that TTM has at most: half of the machine's (ttm_device.c:ttm_global_init @ 6.12.117). */
u64 sim_gtt_limit(void)
{
	return ((u64)totalram_pages() << PAGE_SHIFT) / 2;
}

/* GTT and userptr of all processes. */
static u64 sim_system_limit(void)
{
	u64 ram = (u64)totalram_pages() << PAGE_SHIFT, limit = ram - (ram >> 6);

	return limit < 2 * SIM_SYSTEM_RESERVE ? limit / 2 : limit - SIM_SYSTEM_RESERVE;
}

/* What KFD keeps back of each GPU's VRAM, for page tables of all of them. */
static u64 sim_vram_reserve(void)
{
	u64 total = 0;
	unsigned int i;

	for (i = 0; i < sim.nr_gpus; i++)
		total += sim.gpus[i].vram_bytes;
	return max(total >> 14, SIM_LEAST_RESERVE);
}

static void sim_limit_add(struct sim_gpu *gpu, enum sim_bo_kind kind, s64 size)
{
	s64 units = size < 0 ? -(s64)ALIGN(-size, SIM_AVAILABLE_UNIT) : ALIGN(size, SIM_AVAILABLE_UNIT);

	if (kind == SIM_BO_VRAM) {
		gpu->kfd_vram += size;
		gpu->kfd_vram_units += units;
	} else {
		system_used += size;
		if (kind == SIM_BO_GTT)
			gtt_used += size;
	}
}

static bool sim_limit_allows(const struct sim_gpu *gpu, enum sim_bo_kind kind, u64 size)
{
	if (kind == SIM_BO_VRAM)
		return gpu->kfd_vram + size + sim_vram_reserve() <= gpu->vram_bytes;
	return system_used + size <= sim_system_limit() && (kind != SIM_BO_GTT || gtt_used + size <= sim_gtt_limit());
}

/* KFD is to have so many bytes more. -ENOMEM if that is too much. */
int sim_limit_charge(struct sim_gpu *gpu, enum sim_bo_kind kind, u64 size)
{
	int ret = -ENOMEM;

	spin_lock(&limits_lock);
	if (sim_limit_allows(gpu, kind, size)) {
		sim_limit_add(gpu, kind, size);
		ret = 0;
	}
	spin_unlock(&limits_lock);
	return ret;
}

/* They are free again. */
void sim_limit_uncharge(struct sim_gpu *gpu, enum sim_bo_kind kind, u64 size)
{
	spin_lock(&limits_lock);
	sim_limit_add(gpu, kind, -(s64)size);
	spin_unlock(&limits_lock);
}

/* A process has ended. Its memory is freed later: kfd_process.c:kfd_process_wq_release @ 6.12.117, and TTM. */
void sim_limit_wait_release(void)
{
	unsigned int ms = READ_ONCE(release_ms);

	if (ms)
		msleep(ms);
}

int sim_kfd_available_memory(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_available_memory_args *args = data;
	struct sim_pdd *pdd = sim_pdd_by_id(p, args->gpu_id);
	u64 kept;

	if (!pdd)
		return -EINVAL;
	spin_lock(&limits_lock);
	kept = pdd->gpu->kfd_vram_units + sim_vram_reserve();
	spin_unlock(&limits_lock);
	args->available = kept < pdd->gpu->vram_bytes ? ALIGN_DOWN(pdd->gpu->vram_bytes - kept, SIM_AVAILABLE_UNIT) : 0;
	return 0;
}
