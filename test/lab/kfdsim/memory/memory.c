// SPDX-License-Identifier: GPL-2.0 OR MIT
/* KFD memory: allocation, handles, mapping into the compute VM. */
#include <linux/uaccess.h>
#include <drm/drm_vma_manager.h>

#include "kfdsim.h"

#define SIM_MEM_TYPES (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT | \
		       KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | \
		       KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
#define SIM_MAX_DEVICE_IDS (1u << 16)	/* of one MAP or UNMAP call; a GPU may be named twice */

/* handle = user gpu id << 32 | number; NULL if it is not one of p's. Needs p->lock. */
struct sim_mem *sim_mem_lookup(struct sim_process *p, u64 handle)
{
	struct sim_pdd *pdd = sim_pdd_by_id(p, handle >> 32);

	return pdd && (u32)handle <= INT_MAX ? idr_find(&pdd->mems, (u32)handle) : NULL;
}

/* Where user space maps it: on the render node, or on /dev/kfd with gpu_id encoded. */
u64 sim_mem_mmap_offset(struct sim_mem *mem, u32 gpu_id)
{
	if (mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
		return SIM_MMAP_TYPE_DOORBELL | SIM_MMAP_GPU_ID(gpu_id);
	if (mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
		return SIM_MMAP_TYPE_MMIO | SIM_MMAP_GPU_ID(gpu_id);
	return drm_vma_node_offset_addr(&mem->bo->base.vma_node);
}

/* A BO for these KFD flags, one reference; user_addr for userptr only. */
struct sim_bo *sim_mem_make_bo(struct sim_pdd *pdd, u32 flags, u64 size, u64 user_addr)
{
	u32 type = flags & SIM_MEM_TYPES;
	struct sim_bo *bo;

	/* Of several the first counts: amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu @ 6.12.117. */
	switch (type & -type) {
	case KFD_IOC_ALLOC_MEM_FLAGS_VRAM:
		bo = sim_bo_create(pdd->gpu, SIM_BO_VRAM, size);
		if (!IS_ERR(bo))
			bo->domains = AMDGPU_GEM_DOMAIN_VRAM;
		return bo;
	case KFD_IOC_ALLOC_MEM_FLAGS_GTT:
		bo = sim_bo_create(pdd->gpu, SIM_BO_GTT, size);
		if (!IS_ERR(bo))
			bo->domains = AMDGPU_GEM_DOMAIN_GTT;
		return bo;
	case KFD_IOC_ALLOC_MEM_FLAGS_USERPTR:
		if (!user_addr || offset_in_page(user_addr))
			return ERR_PTR(-EINVAL);
		return sim_bo_create_userptr(pdd->gpu, pdd->p->mm, untagged_addr(user_addr),
					     size, !(flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE));
	case KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL:
		if (size != SIM_DOORBELL_SLICE)
			return ERR_PTR(-EINVAL);
		return sim_bo_create(pdd->gpu, SIM_BO_MMIO, size);
	case KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP:
		if (size != PAGE_SIZE)
			return ERR_PTR(-EINVAL);
		return sim_bo_create(pdd->gpu, SIM_BO_MMIO, size);
	default:
		return ERR_PTR(-EINVAL);
	}
}

/*
 * Give bo a handle; want_id < 0 for any. The caller keeps its own reference to bo. Needs
 * p->lock. -ENOMEM if the wanted number is taken, as the real driver has it.
 */
struct sim_mem *sim_mem_insert(struct sim_pdd *pdd, struct sim_bo *bo, u64 va, u32 flags,
			       struct dma_buf *dmabuf, int want_id, int *id)
{
	struct sim_mem *mem = kzalloc(sizeof(*mem), GFP_KERNEL);
	int ret;

	if (!mem)
		return ERR_PTR(-ENOMEM);
	mem->pdd = pdd;
	mem->bo = bo;
	mem->va = va;
	mem->size = bo->base.size;
	mem->flags = flags;
	ret = drm_vma_node_allow(&bo->base.vma_node, pdd->drm_priv);
	if (ret)
		goto err_free;
	if (want_id < 0)
		ret = idr_alloc(&pdd->mems, mem, 0, 0, GFP_KERNEL);
	else
		ret = idr_alloc(&pdd->mems, mem, want_id, want_id + 1, GFP_KERNEL);
	if (ret < 0) {
		ret = -ENOMEM;
		goto err_revoke;
	}
	*id = ret;
	sim_bo_kfd_get(bo, dmabuf);
	if (bo->kind == SIM_BO_VRAM)
		pdd->vram_usage += mem->size;
	return mem;

err_revoke:
	drm_vma_node_revoke(&bo->base.vma_node, pdd->drm_priv);
err_free:
	kfree(mem);
	return ERR_PTR(ret);
}

void sim_mem_remove(struct sim_mem *mem, int id)
{
	struct sim_pdd *pdd = mem->pdd;
	unsigned int i;

	for (i = 0; i < pdd->p->nr_pdds; i++)
		sim_mem_unmap(mem, &pdd->p->pdds[i]);
	idr_remove(&pdd->mems, id);
	if (mem->bo->kind == SIM_BO_VRAM)
		pdd->vram_usage -= mem->size;
	drm_vma_node_revoke(&mem->bo->base.vma_node, pdd->drm_priv);
	sim_bo_kfd_put(mem->bo);
	kfree(mem);
}

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
	ret = sim_vm_map(pdd->vm, mem->bo, mem->va, mem->size, 0, flags);
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
 * Ranges of SVM are neither where a buffer is nor what a userptr is made of. VRAM at 0 is VRAM
 * without an address.
 */
static bool sim_mem_meets_svm(struct sim_process *p,
			      const struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	bool nowhere = !args->va_addr && args->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM;

	return (!nowhere && sim_svm_covers(p, args->va_addr, args->size)) ||
	       (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR &&
		sim_svm_covers(p, args->mmap_offset, args->size));
}

int sim_kfd_alloc_memory(struct sim_process *p, void *data)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *args = data;
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	struct sim_bo *bo;
	int id, ret = 0;

	if (!args->size)
		return -EINVAL;
	mutex_lock(&p->lock);
	/* The real driver looks at SVM first, before it knows which GPU is meant. */
	if (sim_mem_meets_svm(p, args)) {
		ret = -EADDRINUSE;
		goto out;
	}
	pdd = sim_pdd_with_vm(p, args->gpu_id);
	if (IS_ERR(pdd)) {
		ret = PTR_ERR(pdd);
		goto out;
	}
	bo = sim_mem_make_bo(pdd, args->flags, args->size, args->mmap_offset);
	if (IS_ERR(bo)) {
		ret = PTR_ERR(bo);
		goto out;
	}
	if (bo->kind == SIM_BO_USERPTR)
		ret = sim_bo_probe_user(bo);
	if (!ret) {
		mem = sim_mem_insert(pdd, bo, args->va_addr, args->flags, NULL, -1, &id);
		ret = PTR_ERR_OR_ZERO(mem);
	}
	if (!ret) {
		args->handle = (u64)args->gpu_id << 32 | id;
		args->mmap_offset = sim_mem_mmap_offset(mem, args->gpu_id);
	}
	sim_bo_put(bo);
out:
	mutex_unlock(&p->lock);
	return ret;
}

int sim_kfd_free_memory(struct sim_process *p, void *data)
{
	struct kfd_ioctl_free_memory_of_gpu_args *args = data;
	struct sim_mem *mem;
	int ret = 0;

	mutex_lock(&p->lock);
	mem = sim_mem_lookup(p, args->handle);
	if (!mem)
		ret = -EINVAL;
	else if (p->event_bo && args->handle == p->event_handle)
		ret = -EPERM;
	else if (mem->mapped)
		ret = -EBUSY;
	else
		sim_mem_remove(mem, (u32)args->handle);
	mutex_unlock(&p->lock);
	return ret;
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

int sim_kfd_available_memory(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_available_memory_args *args = data;
	struct sim_pdd *pdd = sim_pdd_by_id(p, args->gpu_id);

	if (!pdd)
		return -EINVAL;
	args->available = pdd->gpu->vram_bytes - atomic64_read(&pdd->gpu->vram_used);
	return 0;
}
