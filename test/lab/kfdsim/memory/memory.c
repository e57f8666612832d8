// SPDX-License-Identifier: GPL-2.0 OR MIT
/* KFD memory: allocation and handles. Mapping is in mem_map.c. */
#include <linux/dma-buf.h>
#include <drm/drm_vma_manager.h>

#include "kfdsim.h"

#define SIM_MEM_TYPES (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT | \
		       KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | \
		       KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)

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

/* One that counts for KFD's limits as long as it is there; user_addr for userptr only. */
static struct sim_bo *sim_mem_create(struct sim_pdd *pdd, enum sim_bo_kind kind, u64 size, u64 user_addr,
				     bool read_only)
{
	struct sim_bo *bo;
	int ret = sim_limit_charge(pdd->gpu, kind, PAGE_ALIGN(size));

	if (ret)
		return ERR_PTR(ret);
	if (kind == SIM_BO_USERPTR)
		bo = sim_bo_create_userptr(pdd->gpu, pdd->p->mm, user_addr, size, read_only);
	else
		bo = sim_bo_create(pdd->gpu, kind, size);
	if (IS_ERR(bo)) {
		sim_limit_uncharge(pdd->gpu, kind, PAGE_ALIGN(size));
		return bo;
	}
	bo->of_kfd = true;
	bo->domains = kind == SIM_BO_VRAM ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT;
	return bo;
}

/* A BO for these KFD flags, one reference; user_addr for userptr only. -ENOMEM also where KFD's limits are met. */
struct sim_bo *sim_mem_make_bo(struct sim_pdd *pdd, u32 flags, u64 size, u64 user_addr)
{
	u32 type = flags & SIM_MEM_TYPES;

	/* Of several the first counts: amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu @ 6.12.117. */
	switch (type & -type) {
	case KFD_IOC_ALLOC_MEM_FLAGS_VRAM:
		return sim_mem_create(pdd, SIM_BO_VRAM, size, 0, false);
	case KFD_IOC_ALLOC_MEM_FLAGS_GTT:
		return sim_mem_create(pdd, SIM_BO_GTT, size, 0, false);
	case KFD_IOC_ALLOC_MEM_FLAGS_USERPTR:
		if (!user_addr || offset_in_page(user_addr))
			return ERR_PTR(-EINVAL);
		return sim_mem_create(pdd, SIM_BO_USERPTR, size, untagged_addr(user_addr),
				      !(flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE));
	case KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL:
		return size == SIM_DOORBELL_SLICE ? sim_bo_create(pdd->gpu, SIM_BO_MMIO, size) : ERR_PTR(-EINVAL);
	case KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP:
		return size == PAGE_SIZE ? sim_bo_create(pdd->gpu, SIM_BO_MMIO, size) : ERR_PTR(-EINVAL);
	default:
		return ERR_PTR(-EINVAL);
	}
}

/* Has KFD a DRM client, whose handles its memory gets? Then a BO has one dma-buf (kernels before have neither). */
static bool sim_mem_has_handles(const struct sim_process *p)
{
	return !p->kernel->dmabuf_per_export;
}

/* In vram_GPU: not what was imported (kfd_chardev.c:kfd_ioctl_alloc_memory_of_gpu @ 6.12.117). */
static bool sim_mem_counts(const struct sim_mem *mem)
{
	return mem->bo->kind == SIM_BO_VRAM && !mem->is_import;
}

/*
 * A handle to bo at va for this GPU; want_id < 0: any number, else that one. from: what it was imported from, NULL: KFD
 * gives it a GEM handle. -ENOMEM also if the number is taken.
 */
struct sim_mem *sim_mem_insert(struct sim_pdd *pdd, struct sim_bo *bo, u64 va, u32 flags,
			       const struct sim_mem_import *from, int want_id, int *id)
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
	mem->is_import = from;
	ret = drm_vma_node_allow(&bo->base.vma_node, pdd->drm_priv);
	if (ret)
		goto err_free;
	if (from)
		mem->gem_handle = from->gem_handle;
	else if (sim_mem_has_handles(pdd->p))
		ret = sim_kfd_handle_create(pdd->gpu, bo, &mem->gem_handle);
	if (ret)
		goto err_revoke;
	ret = idr_alloc(&pdd->mems, mem, max(want_id, 0), want_id < 0 ? 0 : want_id + 1, GFP_KERNEL);
	if (ret < 0) {
		ret = -ENOMEM;
		goto err_handle;
	}
	*id = ret;
	sim_bo_get(bo);
	if (from && from->dmabuf) {
		get_dma_buf(from->dmabuf);
		mem->dmabuf = from->dmabuf;
	}
	if (sim_mem_counts(mem))
		pdd->vram_usage += mem->size;
	return mem;

err_handle:
	if (!from && mem->gem_handle)
		sim_kfd_handle_delete(pdd->gpu, mem->gem_handle, bo);
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
	if (sim_mem_counts(mem))
		pdd->vram_usage -= mem->size;
	drm_vma_node_revoke(&mem->bo->base.vma_node, pdd->drm_priv);
	if (mem->gem_handle)
		sim_kfd_handle_delete(pdd->gpu, mem->gem_handle, mem->bo);
	if (mem->dmabuf)
		dma_buf_put(mem->dmabuf);
	sim_bo_put(mem->bo);
	kfree(mem);
}

/*
 * The dma-buf of mem, referenced. The first time it is that of whatever has its GEM handle by now, then the same again
 * (amdgpu_amdkfd_gpuvm.c:kfd_mem_export_dmabuf @ 6.12.117). -ENOENT: nothing has. Needs p->lock.
 */
struct dma_buf *sim_mem_dmabuf(struct sim_mem *mem, u32 flags)
{
	struct dma_buf *dmabuf;

	if (!mem->dmabuf) {
		dmabuf = sim_kfd_handle_export(mem->pdd->gpu, mem->gem_handle, flags);
		if (IS_ERR(dmabuf))
			return dmabuf;
		mem->dmabuf = dmabuf;
	}
	get_dma_buf(mem->dmabuf);
	return mem->dmabuf;
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
	/* First, before it is known which GPU is meant: kfd_chardev.c:kfd_ioctl_alloc_memory_of_gpu @ 7.2.13. */
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
