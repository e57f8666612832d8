// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Import of memory that another device exports: another simulated GPU, or any driver whose
 * dma-bufs have pages. What this GPU exported itself comes back as the same BO, by the core.
 */
#include <linux/dma-buf.h>
#include <drm/drm_prime.h>

#include "kfdsim.h"

/* An importer takes over how the exporter, if it is a GPU too, wants it to be cached. */
#define SIM_IMPORTED_FLAGS	(AMDGPU_GEM_CREATE_CPU_GTT_USWC | AMDGPU_GEM_CREATE_COHERENT | \
				 AMDGPU_GEM_CREATE_EXT_COHERENT | AMDGPU_GEM_CREATE_UNCACHED)

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
