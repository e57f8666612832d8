// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * GEM handles that KFD has: one table for each GPU, shared by all processes, as the real driver has one DRM client
 * (amdgpu_amdkfd.c:amdgpu_amdkfd_drm_client_create @ 6.12.117). A dma-buf that was imported or exported once is found
 * by its handle again, and nobody counts who has it: amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_import_dmabuf_fd. So the
 * first FREE deletes the handle of all, and the next one deletes whatever has its number by then. Kernels without that
 * client (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_import_dmabuf @ 6.1.192) have no such handles.
 */
#include <linux/dma-buf.h>
#include <drm/drm_prime.h>

#include "kfdsim.h"

struct sim_kfd_handle {
	struct sim_bo *bo;
	struct dma_buf *dmabuf;		/* what an import finds it by; NULL: there was neither import nor export */
};

void sim_kfd_handles_init(struct sim_gpu *gpu)
{
	idr_init_base(&gpu->kfd_handles, 1);
}

void sim_kfd_handles_fini(struct sim_gpu *gpu)
{
	WARN_ON(!idr_is_empty(&gpu->kfd_handles));
	idr_destroy(&gpu->kfd_handles);
}

/* The lowest free number. It counts with the handles of files: the first of a BO takes a reference. Needs the lock. */
static int sim_kfd_handle_add(struct sim_gpu *gpu, struct sim_bo *bo, u32 *number)
{
	struct sim_kfd_handle *h = kzalloc(sizeof(*h), GFP_KERNEL);
	int ret;

	if (!h)
		return -ENOMEM;
	h->bo = bo;
	ret = idr_alloc(&gpu->kfd_handles, h, 1, 0, GFP_KERNEL);
	if (ret < 0) {
		kfree(h);
		return ret;
	}
	*number = ret;
	if (!bo->base.handle_count++)
		sim_bo_get(bo);
	return 0;
}

int sim_kfd_handle_create(struct sim_gpu *gpu, struct sim_bo *bo, u32 *number)
{
	int ret;

	mutex_lock(&gpu->drm->object_name_lock);
	ret = sim_kfd_handle_add(gpu, bo, number);
	mutex_unlock(&gpu->drm->object_name_lock);
	return ret;
}

static struct sim_kfd_handle *sim_kfd_handle_find(struct sim_gpu *gpu, struct dma_buf *dmabuf, u32 *number)
{
	struct sim_kfd_handle *h;
	int id;

	idr_for_each_entry(&gpu->kfd_handles, h, id) {
		if (h->dmabuf == dmabuf) {
			*number = id;
			return h;
		}
	}
	return NULL;
}

/* A dma-buf of this GPU gives its BO, any other a BO of this GPU over the same pages. Needs the lock. */
static struct sim_bo *sim_kfd_handle_new_import(struct sim_gpu *gpu, struct dma_buf *dmabuf, u32 *number)
{
	struct drm_gem_object *obj = drm_gem_prime_import(gpu->drm, dmabuf);
	struct sim_kfd_handle *h;
	int ret;

	if (IS_ERR(obj))
		return ERR_CAST(obj);
	ret = sim_kfd_handle_add(gpu, to_sim_bo(obj), number);
	if (ret) {
		drm_gem_object_put(obj);
		return ERR_PTR(ret);
	}
	h = idr_find(&gpu->kfd_handles, *number);
	get_dma_buf(dmabuf);
	h->dmabuf = dmabuf;
	if (!obj->dma_buf) {
		get_dma_buf(dmabuf);
		obj->dma_buf = dmabuf;
	}
	return to_sim_bo(obj);
}

/* The BO, referenced, of a dma-buf and its handle: the one that there is, which nobody counts, or a new one. */
struct sim_bo *sim_kfd_handle_import(struct sim_gpu *gpu, struct dma_buf *dmabuf, u32 *number)
{
	struct sim_kfd_handle *h;
	struct sim_bo *bo;

	mutex_lock(&gpu->drm->object_name_lock);
	h = sim_kfd_handle_find(gpu, dmabuf, number);
	if (h) {
		bo = h->bo;
		sim_bo_get(bo);
	} else {
		bo = sim_kfd_handle_new_import(gpu, dmabuf, number);
	}
	mutex_unlock(&gpu->drm->object_name_lock);
	return bo;
}

/* The dma-buf of h, made if need be. Needs the lock. */
static struct dma_buf *sim_kfd_handle_share(struct sim_kfd_handle *h, u32 flags)
{
	struct drm_gem_object *obj = &h->bo->base;

	if (!obj->dma_buf) {
		struct dma_buf *dmabuf = sim_bo_export(obj, flags);

		if (IS_ERR(dmabuf))
			return dmabuf;
		obj->dma_buf = dmabuf;
	}
	if (!h->dmabuf) {
		get_dma_buf(obj->dma_buf);
		h->dmabuf = obj->dma_buf;
	}
	return h->dmabuf;
}

/* The dma-buf, referenced, of whatever has this number; -ENOENT: nothing has. */
struct dma_buf *sim_kfd_handle_export(struct sim_gpu *gpu, u32 number, u32 flags)
{
	struct dma_buf *dmabuf = ERR_PTR(-ENOENT);
	struct sim_kfd_handle *h;

	mutex_lock(&gpu->drm->object_name_lock);
	h = idr_find(&gpu->kfd_handles, number);
	if (h)
		dmabuf = sim_kfd_handle_share(h, flags);
	if (!IS_ERR(dmabuf))
		get_dma_buf(dmabuf);
	mutex_unlock(&gpu->drm->object_name_lock);
	return dmabuf;
}

/* Whatever has this number has no handle any more. bo is what was meant. */
void sim_kfd_handle_delete(struct sim_gpu *gpu, u32 number, struct sim_bo *bo)
{
	struct dma_buf *dmabuf = NULL;
	struct sim_kfd_handle *h;
	bool last = false;

	mutex_lock(&gpu->drm->object_name_lock);
	h = idr_remove(&gpu->kfd_handles, number);
	if (h) {
		if (h->bo != bo)
			atomic64_inc(&sim_count.stale_handle_deletes);
		last = !--h->bo->base.handle_count;
		if (last)
			swap(dmabuf, h->bo->base.dma_buf);
	}
	mutex_unlock(&gpu->drm->object_name_lock);
	if (!h)
		return;
	if (h->dmabuf)
		dma_buf_put(h->dmabuf);
	if (dmabuf)
		dma_buf_put(dmabuf);
	if (last)
		sim_bo_put(h->bo);
	kfree(h);
}
