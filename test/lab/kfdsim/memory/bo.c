// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Buffer objects and accounting. Their pages come from page_pool.c, CPU mappings are in bo_map.c,
 * dma-bufs in prime.c.
 */
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>
#include <drm/drm_prime.h>

#include "kernels.h"
#include "kfdsim.h"

static int sim_charge(struct sim_bo *bo)
{
	struct sim_gpu *gpu = sim_bo_gpu(bo);
	s64 size = bo->base.size, used, limit;

	switch (bo->kind) {
	case SIM_BO_VRAM:
		limit = sim_fault_vram(gpu->gpu_id, gpu->vram_bytes);
		used = atomic64_read(&gpu->vram_used);
		do {
			if (used > limit || size > limit - used)
				return -ENOMEM;
		} while (!atomic64_try_cmpxchg(&gpu->vram_used, &used, used + size));
		atomic64_add(size, &sim_count.vram_bytes);
		return 0;
	case SIM_BO_GTT:
		atomic64_add(size, &gpu->gtt_used);
		atomic64_add(size, &sim_count.gtt_bytes);
		return 0;
	default:
		return 0;
	}
}

static void sim_uncharge(struct sim_bo *bo)
{
	if (bo->kind == SIM_BO_VRAM) {
		atomic64_sub(bo->base.size, &sim_bo_gpu(bo)->vram_used);
		atomic64_sub(bo->base.size, &sim_count.vram_bytes);
	} else if (bo->kind == SIM_BO_GTT) {
		atomic64_sub(bo->base.size, &sim_bo_gpu(bo)->gtt_used);
		atomic64_sub(bo->base.size, &sim_count.gtt_bytes);
	}
}

static void sim_free_pages(struct sim_bo *bo)
{
	/* Imported ones belong to the exporter. */
	if (bo->pages && bo->kind != SIM_BO_IMPORT)
		sim_pages_give(bo->pages, bo->base.size >> PAGE_SHIFT);
	kvfree(bo->pages);
}

static int sim_alloc_pages(struct sim_bo *bo)
{
	unsigned long n = bo->base.size >> PAGE_SHIFT;
	int ret;

	bo->pages = kvcalloc(n, sizeof(*bo->pages), GFP_KERNEL | __GFP_NOWARN);
	if (!bo->pages)
		return -ENOMEM;
	ret = sim_pages_take(bo->pages, n);
	if (ret) {
		sim_pages_discard(bo->pages, n);
		kvfree(bo->pages);
		bo->pages = NULL;
	}
	return ret;
}

static void sim_bo_free(struct drm_gem_object *obj)
{
	struct sim_bo *bo = to_sim_bo(obj);

	vunmap(bo->vaddr);
	if (obj->import_attach)
		drm_prime_gem_destroy(obj, bo->sgt);
	drm_gem_object_release(obj);
	sim_free_pages(bo);
	sim_uncharge(bo);
	if (bo->of_kfd)
		sim_limit_uncharge(sim_bo_gpu(bo), bo->kind, obj->size);
	if (bo->kind == SIM_BO_USERPTR) {
		mmdrop(bo->mm);
		atomic64_dec(&sim_count.userptr);
	}
	atomic64_dec(&sim_count.bos);
	mutex_destroy(&bo->lock);
	kfree(bo);
}

/* A file gets a handle. Pages of a userptr may only be reached by the process they are of. */
static int sim_bo_open(struct drm_gem_object *obj, struct drm_file *file)
{
	struct sim_bo *bo = to_sim_bo(obj);

	if (bo->kind == SIM_BO_USERPTR && bo->mm != current->mm)
		return -EPERM;
	return sim_vm_attach(file->driver_priv, bo);
}

static void sim_bo_close(struct drm_gem_object *obj, struct drm_file *file)
{
	struct sim_bo *bo = to_sim_bo(obj);

	/* A submission that needs it still has it to the end: amdgpu_gem.c:amdgpu_gem_object_close @ 6.12.117. */
	if (bo->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID ||
	    !sim_submission_over(atomic64_read(&bo->busy_until)))
		sim_submissions_flush(file->driver_priv);
	sim_vm_detach(file->driver_priv, bo);
}

static const struct drm_gem_object_funcs sim_bo_funcs = {
	.free = sim_bo_free,
	.open = sim_bo_open,
	.close = sim_bo_close,
	.export = sim_bo_export,
	.get_sg_table = sim_bo_get_sg_table,
	.vmap = sim_bo_gem_vmap,
	.vunmap = sim_bo_gem_vunmap,
	.mmap = sim_bo_mmap,
	.vm_ops = &sim_bo_vm_ops,
};

static struct sim_bo *sim_bo_alloc(struct sim_gpu *gpu, enum sim_bo_kind kind, u64 size,
				   struct mm_struct *mm)
{
	struct sim_bo *bo;
	int ret;

	if (!size || size > (1ULL << 46))
		return ERR_PTR(-EINVAL);
	bo = kzalloc(sizeof(*bo), GFP_KERNEL);
	if (!bo)
		return ERR_PTR(-ENOMEM);
	bo->kind = kind;
	mutex_init(&bo->lock);
	bo->base.funcs = &sim_bo_funcs;
	drm_gem_private_object_init(gpu->drm, &bo->base, PAGE_ALIGN(size));
	ret = sim_charge(bo);
	if (ret) {
		/* Not charged: sim_bo_free() would give back what was never taken. */
		drm_gem_object_release(&bo->base);
		kfree(bo);
		return ERR_PTR(ret);
	}
	atomic64_inc(&sim_count.bos);
	if (kind == SIM_BO_USERPTR) {
		mmgrab(mm);
		bo->mm = mm;
		atomic64_inc(&sim_count.userptr);
	}
	ret = drm_gem_create_mmap_offset(&bo->base);
	if (!ret && (kind == SIM_BO_VRAM || kind == SIM_BO_GTT))
		ret = sim_alloc_pages(bo);
	if (ret) {
		sim_bo_put(bo);
		return ERR_PTR(ret);
	}
	return bo;
}

/* A zeroed BO of size bytes; -ENOMEM when VRAM (by accounting) or memory is short. */
struct sim_bo *sim_bo_create(struct sim_gpu *gpu, enum sim_bo_kind kind, u64 size)
{
	return sim_bo_alloc(gpu, kind, size, NULL);
}

struct sim_bo *sim_bo_create_userptr(struct sim_gpu *gpu, struct mm_struct *mm, u64 addr,
				     u64 size, bool read_only)
{
	struct sim_bo *bo = sim_bo_alloc(gpu, SIM_BO_USERPTR, size, mm);

	if (!IS_ERR(bo)) {
		bo->user_addr = addr;
		bo->read_only = read_only;
		bo->domains = AMDGPU_GEM_DOMAIN_GTT;
	}
	return bo;
}

/* A BO of size bytes over the pages of another device. The caller fills in the rest. */
struct sim_bo *sim_bo_create_import(struct sim_gpu *gpu, u64 size, struct sg_table *sgt)
{
	struct sim_bo *bo = sim_bo_alloc(gpu, SIM_BO_IMPORT, size, NULL);
	unsigned long n;

	if (IS_ERR(bo))
		return bo;
	n = bo->base.size >> PAGE_SHIFT;
	bo->pages = kvcalloc(n, sizeof(*bo->pages), GFP_KERNEL | __GFP_NOWARN);
	if (!bo->pages) {
		sim_bo_put(bo);
		return ERR_PTR(-ENOMEM);
	}
	/* A table that is too short or too long is not one of size bytes. */
	if (drm_prime_sg_to_page_array(sgt, bo->pages, n) || !bo->pages[n - 1]) {
		sim_bo_put(bo);
		return ERR_PTR(-EINVAL);
	}
	bo->sgt = sgt;
	return bo;
}
