// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Sharing of KFD memory through dma-bufs. */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/uaccess.h>

#include "kfdsim.h"

/* By what was asked for, not by where it is. */
static u32 sim_bo_kfd_type(struct sim_bo *bo)
{
	return bo->domains & AMDGPU_GEM_DOMAIN_VRAM ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM :
						      KFD_IOC_ALLOC_MEM_FLAGS_GTT;
}

/* What KFD can use as memory: not a BO that is for the CPU only. */
static bool sim_bo_is_memory(struct sim_bo *bo)
{
	return bo->domains & (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT);
}

/*
 * Metadata goes out whole or not at all. Its size is told in any case, and must have been known also by who has no
 * buffer for it (amdgpu_amdkfd.c:amdgpu_amdkfd_get_dmabuf_info @ 6.12.117).
 */
static int sim_dmabuf_metadata(struct sim_bo *bo, struct kfd_ioctl_get_dmabuf_info_args *args)
{
	u32 room = args->metadata_size;
	int ret = 0;

	mutex_lock(&bo->lock);
	args->metadata_size = bo->metadata_size;
	if (room < bo->metadata_size)
		ret = -EINVAL;
	else if (args->metadata_ptr && copy_to_user(u64_to_user_ptr(args->metadata_ptr), bo->metadata,
						    bo->metadata_size))
		ret = -EFAULT;
	mutex_unlock(&bo->lock);
	return ret;
}

/* -EINVAL for a dma-buf that no simulated GPU exported. */
int sim_kfd_get_dmabuf_info(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_dmabuf_info_args *args = data;
	struct dma_buf *dmabuf = dma_buf_get(args->dmabuf_fd);
	struct sim_bo *bo;
	int ret = -EINVAL;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	bo = sim_bo_from_dmabuf(dmabuf);
	if (bo && sim_bo_is_memory(bo)) {
		args->size = bo->base.size;
		/* The exporter's, and its actual id even after a restore under another one. */
		args->gpu_id = sim_bo_gpu(bo)->gpu_id;
		args->flags = sim_bo_kfd_type(bo);
		if (bo->create_flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED)
			args->flags |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
		ret = sim_dmabuf_metadata(bo, args);
	}
	dma_buf_put(dmabuf);
	return ret;
}

/*
 * The BO of a dma-buf, referenced, and what KFD keeps of the import. Kernels without handles of KFD's take what this
 * GPU has exported only (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_import_dmabuf @ 6.1.192).
 */
static struct sim_bo *sim_import_bo(struct sim_pdd *pdd, struct dma_buf *dmabuf, struct sim_mem_import *from)
{
	struct sim_bo *bo;

	if (!pdd->p->kernel->dmabuf_per_export) {
		bo = sim_kfd_handle_import(pdd->gpu, dmabuf, &from->gem_handle);
		from->dmabuf = dmabuf;
		return bo;
	}
	bo = sim_bo_from_dmabuf(dmabuf);
	if (!bo || sim_bo_gpu(bo) != pdd->gpu)
		return ERR_PTR(-EINVAL);
	sim_bo_get(bo);
	return bo;
}

/* A failure deletes the handle, also one that was there before. */
static int sim_import(struct sim_pdd *pdd, struct kfd_ioctl_import_dmabuf_args *args)
{
	struct dma_buf *dmabuf = dma_buf_get(args->dmabuf_fd);
	struct sim_mem_import from = {};
	struct sim_mem *mem;
	struct sim_bo *bo;
	int id, ret = -EINVAL;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	bo = sim_import_bo(pdd, dmabuf, &from);
	if (IS_ERR(bo)) {
		dma_buf_put(dmabuf);
		return PTR_ERR(bo);
	}
	if (sim_bo_is_memory(bo)) {
		mem = sim_mem_insert(pdd, bo, args->va_addr,
				     sim_bo_kfd_type(bo) | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
				     KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE, &from, -1, &id);
		ret = PTR_ERR_OR_ZERO(mem);
	}
	if (!ret)
		args->handle = (u64)args->gpu_id << 32 | id;
	else if (from.gem_handle)
		sim_kfd_handle_delete(pdd->gpu, from.gem_handle, bo);
	sim_bo_put(bo);
	dma_buf_put(dmabuf);
	return ret;
}

int sim_kfd_import_dmabuf(struct sim_process *p, void *data)
{
	struct kfd_ioctl_import_dmabuf_args *args = data;
	struct sim_pdd *pdd;
	int ret;

	mutex_lock(&p->lock);
	pdd = sim_pdd_with_vm(p, args->gpu_id);
	ret = IS_ERR(pdd) ? PTR_ERR(pdd) : sim_import(pdd, args);
	mutex_unlock(&p->lock);
	return ret;
}

/*
 * Unlike every other ioctl this one looks the GPU up by its actual id, so after a restore
 * under another id it wants a handle with the actual one. So has 6.12 it.
 */
int sim_kfd_export_dmabuf(struct sim_process *p, void *data)
{
	struct kfd_ioctl_export_dmabuf_args *args = data;
	struct dma_buf *dmabuf = ERR_PTR(-EINVAL);
	struct sim_gpu *gpu = sim_gpu_by_id(args->handle >> 32);
	struct sim_pdd *pdd;
	struct sim_mem *mem = NULL;
	int ret;

	if (!gpu)
		return -EINVAL;
	mutex_lock(&p->lock);
	pdd = sim_pdd_by_gpu(p, gpu);
	if (pdd)
		mem = sim_mem_lookup(p, (u64)pdd->user_gpu_id << 32 | (u32)args->handle);
	if (mem)
		dmabuf = sim_mem_dmabuf(mem, mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE ? O_RDWR : 0);
	mutex_unlock(&p->lock);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = dma_buf_fd(dmabuf, args->flags);
	if (ret < 0) {
		dma_buf_put(dmabuf);
		return ret;
	}
	args->dmabuf_fd = ret;
	return 0;
}
