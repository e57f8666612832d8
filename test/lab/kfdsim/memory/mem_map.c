// SPDX-License-Identifier: GPL-2.0 OR MIT
/* KFD memory in the address spaces of GPUs. */
#include <linux/uaccess.h>

#include "kfdsim.h"

#define SIM_MAX_DEVICE_IDS (1u << 16)	/* of one MAP or UNMAP call; a GPU may be named twice */

static u32 sim_mem_bit(struct sim_pdd *pdd)
{
	return BIT(pdd - pdd->p->pdds);
}

/* VRAM, doorbells and registers of another GPU are reached through XGMI or a PCIe that can. */
static bool sim_mem_reachable(struct sim_mem *mem, struct sim_gpu *gpu)
{
	struct sim_gpu *home = sim_bo_gpu(mem->bo);

	if (gpu == home || mem->bo->kind == SIM_BO_GTT || mem->bo->kind == SIM_BO_IMPORT ||
	    mem->bo->kind == SIM_BO_USERPTR)
		return true;
	if (mem->bo->kind == SIM_BO_VRAM && gpu->hive && gpu->hive == home->hive)
		return true;
	return sim.p2p;
}

/*
 * Map for a GPU, which need not be the one that has the memory; mapping twice is no error.
 * -ENODEV: that GPU has no VM yet; -EINVAL: it cannot reach the memory, or the range is in use.
 */
int sim_mem_map(struct sim_mem *mem, struct sim_pdd *pdd)
{
	u32 flags = AMDGPU_VM_PAGE_READABLE;
	int ret;

	if (!pdd->vm)
		return -ENODEV;
	if (mem->mapped & sim_mem_bit(pdd))
		return 0;
	if (!sim_mem_reachable(mem, pdd->gpu))
		return -EINVAL;
	if (mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)
		flags |= AMDGPU_VM_PAGE_WRITEABLE;
	if (mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE)
		flags |= AMDGPU_VM_PAGE_EXECUTABLE;
	ret = sim_vm_attach(pdd->vm, mem->bo);
	if (ret)
		return ret;
	ret = sim_vm_map(pdd->vm, mem->bo, mem->va, mem->size, 0, flags, true);
	if (ret)
		sim_vm_detach(pdd->vm, mem->bo);
	else
		mem->mapped |= sim_mem_bit(pdd);
	return ret;
}

/*
 * -EINVAL if it is not mapped for this GPU, -EBUSY if a queue is made of it
 * (amdgpu_amdkfd_gpuvm.c:unmap_bo_from_gpuvm @ 6.12.117).
 */
int sim_mem_unmap(struct sim_mem *mem, struct sim_pdd *pdd)
{
	if (!(mem->mapped & sim_mem_bit(pdd)))
		return -EINVAL;
	if (sim_vm_has_queue(pdd->vm, mem->bo))
		return -EBUSY;
	/* Whoever has a GEM handle may have unmapped it before. */
	sim_vm_unmap(pdd->vm, mem->bo, mem->va);
	sim_vm_detach(pdd->vm, mem->bo);
	mem->mapped &= ~sim_mem_bit(pdd);
	return 0;
}

/*
 * MAP and UNMAP have arguments of the same layout. n_success counts on over the devices of
 * the list, so that an interrupted call can go on where it was.
 */
static int sim_mem_each(struct sim_process *p, struct kfd_ioctl_map_memory_to_gpu_args *args,
			int (*func)(struct sim_mem *mem, struct sim_pdd *pdd))
{
	u32 *list, i, n = args->n_devices;
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	int ret = 0;

	if (!n || args->n_success > n)
		return -EINVAL;
	if (n > SIM_MAX_DEVICE_IDS)
		return -ENOMEM;
	list = vmemdup_array_user(u64_to_user_ptr(args->device_ids_array_ptr), n, sizeof(*list));
	if (IS_ERR(list))
		return PTR_ERR(list);
	mutex_lock(&p->lock);
	mem = sim_mem_lookup(p, args->handle);
	if (!mem || p->dead)
		ret = -EINVAL;
	for (i = args->n_success; i < n && !ret; i++) {
		pdd = sim_pdd_by_id(p, list[i]);
		ret = pdd ? func(mem, pdd) : -EINVAL;
		if (!ret)
			args->n_success = i + 1;
	}
	mutex_unlock(&p->lock);
	kvfree(list);
	return ret;
}

int sim_kfd_map_memory(struct sim_process *p, void *data)
{
	return sim_mem_each(p, data, sim_mem_map);
}

static_assert(sizeof(struct kfd_ioctl_map_memory_to_gpu_args) ==
	      sizeof(struct kfd_ioctl_unmap_memory_from_gpu_args));

int sim_kfd_unmap_memory(struct sim_process *p, void *data)
{
	return sim_mem_each(p, data, sim_mem_unmap);
}
