// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Buffer objects as dma-bufs: export and import. What KFD's handles do with them is in memory/kfd_handles.c. */
#include <linux/dma-buf.h>
#include <drm/drm_prime.h>

#include "kfdsim.h"

/* An importer takes over how the exporter, if it is a GPU too, wants it to be cached. */
#define SIM_IMPORTED_FLAGS	(AMDGPU_GEM_CREATE_CPU_GTT_USWC | AMDGPU_GEM_CREATE_COHERENT | \
				 AMDGPU_GEM_CREATE_EXT_COHERENT | AMDGPU_GEM_CREATE_UNCACHED)

/*
 * Import of memory that another device exports: another simulated GPU, or any driver whose
 * dma-bufs have pages. What this GPU exported itself comes back as the same BO, by the core.
 */
struct drm_gem_object *sim_prime_import_sg_table(struct drm_device *dev,
						 struct dma_buf_attachment *attach,
						 struct sg_table *sgt)
{
	struct sim_bo *exporter = sim_bo_from_dmabuf(attach->dmabuf);
	struct sim_bo *bo = sim_bo_create_import(sim_gpu_of(dev), attach->dmabuf->size, sgt);

	if (IS_ERR(bo))
		return ERR_CAST(bo);
	bo->domains = AMDGPU_GEM_DOMAIN_GTT;
	if (exporter)
		bo->create_flags = exporter->create_flags & SIM_IMPORTED_FLAGS;
	return &bo->base;
}

struct sg_table *sim_bo_get_sg_table(struct drm_gem_object *obj)
{
	struct sim_bo *bo = to_sim_bo(obj);

	if (!bo->pages)
		return ERR_PTR(-EPERM);
	return drm_prime_pages_to_sg(obj->dev, bo->pages, obj->size >> PAGE_SHIFT);
}

struct dma_buf *sim_bo_export(struct drm_gem_object *obj, int flags)
{
	struct sim_bo *bo = to_sim_bo(obj);

	if (!bo->pages || bo->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		return ERR_PTR(-EPERM);
	return drm_gem_prime_export(obj, flags);
}

/* The BO behind a dma-buf of this device, not referenced; NULL for any other dma-buf. */
struct sim_bo *sim_bo_from_dmabuf(struct dma_buf *dmabuf)
{
	/* Only drm_gem_prime_export() makes dma-bufs owned by this module. */
	if (dmabuf->owner != THIS_MODULE)
		return NULL;
	return to_sim_bo((struct drm_gem_object *)dmabuf->priv);
}
