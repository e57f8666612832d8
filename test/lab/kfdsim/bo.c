// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Buffer objects: pages, accounting, CPU mappings, dma-bufs.
 *
 * Pages come from alloc_pages() without __GFP_ACCOUNT: like real VRAM they are not
 * charged to the memory cgroup of the process that asked for them.
 */
#include <linux/dma-buf.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>
#include <drm/drm_prime.h>

#include "kfdsim.h"

#define SIM_FAULT_AROUND 64

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
	unsigned long i, n = bo->base.size >> PAGE_SHIFT;

	if (!bo->pages)
		return;
	/* Imported ones belong to the exporter. */
	for (i = 0; i < n && bo->kind != SIM_BO_IMPORT; i++) {
		if (bo->pages[i])
			__free_page(bo->pages[i]);
		if (!(i & 0xfff))
			cond_resched();
	}
	kvfree(bo->pages);
}

static int sim_alloc_pages(struct sim_bo *bo)
{
	/* A BO larger than the machine must fail, not wake the OOM killer. */
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
	unsigned long n = bo->base.size >> PAGE_SHIFT, done = 0, got;

	bo->pages = kvcalloc(n, sizeof(*bo->pages), GFP_KERNEL | __GFP_NOWARN);
	if (!bo->pages)
		return -ENOMEM;
	while (done < n) {
		got = alloc_pages_bulk_array(gfp, min(n - done, 512UL), bo->pages + done);
		if (!got)
			return -ENOMEM;
		done += got;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
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
	if (bo->kind == SIM_BO_USERPTR) {
		mmdrop(bo->mm);
		atomic64_dec(&sim_count.userptr);
	}
	atomic64_dec(&sim_count.bos);
	mutex_destroy(&bo->lock);
	kfree(bo);
}

void *sim_bo_vmap(struct sim_bo *bo)
{
	void *vaddr;

	if (!bo->pages)
		return NULL;
	mutex_lock(&bo->lock);
	if (!bo->vaddr)
		bo->vaddr = vmap(bo->pages, bo->base.size >> PAGE_SHIFT, VM_MAP, PAGE_KERNEL);
	vaddr = bo->vaddr;
	mutex_unlock(&bo->lock);
	return vaddr;
}

static int sim_bo_gem_vmap(struct drm_gem_object *obj, struct iosys_map *map)
{
	void *vaddr = sim_bo_vmap(to_sim_bo(obj));

	if (!vaddr)
		return -ENOMEM;
	iosys_map_set_vaddr(map, vaddr);
	return 0;
}

/* The kernel mapping is kept for the life of the BO. */
static void sim_bo_gem_vunmap(struct drm_gem_object *obj, struct iosys_map *map)
{
}

static struct sg_table *sim_bo_get_sg_table(struct drm_gem_object *obj)
{
	struct sim_bo *bo = to_sim_bo(obj);

	if (!bo->pages)
		return ERR_PTR(-EPERM);
	return drm_prime_pages_to_sg(obj->dev, bo->pages, obj->size >> PAGE_SHIFT);
}

static struct dma_buf *sim_bo_export(struct drm_gem_object *obj, int flags)
{
	struct sim_bo *bo = to_sim_bo(obj);

	if (!bo->pages || bo->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		return ERR_PTR(-EPERM);
	return drm_gem_prime_export(obj, flags);
}

static vm_fault_t sim_bo_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct drm_gem_object *obj = vma->vm_private_data;
	struct sim_bo *bo = to_sim_bo(obj);
	unsigned long first = vmf->pgoff - drm_vma_node_start(&obj->vma_node);
	unsigned long i, n = obj->size >> PAGE_SHIFT;
	vm_fault_t ret;

	/* As TTM: imported pages are mapped through their dma-buf, not through the importer. */
	if (first >= n || bo->kind == SIM_BO_IMPORT)
		return VM_FAULT_SIGBUS;
	ret = vmf_insert_pfn(vma, vmf->address, page_to_pfn(bo->pages[first]));
	/* Faults are slow in an emulated guest: map the neighbours too. */
	n = min3(n - first, (vma->vm_end - vmf->address) >> PAGE_SHIFT,
		 (unsigned long)SIM_FAULT_AROUND);
	for (i = 1; i < n && ret == VM_FAULT_NOPAGE; i++)
		if (vmf_insert_pfn(vma, vmf->address + (i << PAGE_SHIFT),
				   page_to_pfn(bo->pages[first + i])) != VM_FAULT_NOPAGE)
			break;
	return ret;
}

/* ptrace and /proc/PID/mem: pfn mappings have no pages of their own to pin. */
static int sim_bo_access(struct vm_area_struct *vma, unsigned long addr, void *buf, int len,
			 int write)
{
	struct drm_gem_object *obj = vma->vm_private_data;
	struct sim_bo *bo = to_sim_bo(obj);
	u64 off = (u64)addr - vma->vm_start +
		  ((u64)(vma->vm_pgoff - drm_vma_node_start(&obj->vma_node)) << PAGE_SHIFT);
	int done = 0;

	if (off >= obj->size || bo->kind == SIM_BO_IMPORT)
		return -EIO;
	len = min_t(u64, len, obj->size - off);
	while (done < len) {
		u64 at = off + done;
		int n = min_t(u64, len - done, PAGE_SIZE - offset_in_page(at));
		void *page = page_address(bo->pages[at >> PAGE_SHIFT]) + offset_in_page(at);

		if (write)
			memcpy(page, buf + done, n);
		else
			memcpy(buf + done, page, n);
		done += n;
	}
	return len;
}

static const struct vm_operations_struct sim_bo_vm_ops = {
	.fault = sim_bo_fault,
	.access = sim_bo_access,
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

static int sim_bo_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	struct sim_bo *bo = to_sim_bo(obj);

	if (!bo->pages || bo->create_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS)
		return -EPERM;
	if (is_cow_mapping(vma->vm_flags)) {
		/* The thunk maps invisible VRAM PROT_NONE and private; allow just that. */
		if (vma->vm_flags & VM_ACCESS_FLAGS)
			return -EINVAL;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
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
	sim_vm_detach(file->driver_priv, to_sim_bo(obj));
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

/* Can every page of the userptr be had? -EFAULT if not. Takes no lasting pin. */
int sim_bo_probe_user(struct sim_bo *bo)
{
	u64 pos = 0, n = bo->base.size >> PAGE_SHIFT;
	struct page *pages[SIM_CURSOR_PAGES];
	long got;
	int ret = 0;

	if (!mmget_not_zero(bo->mm))
		return -ESRCH;
	while (pos < n && !ret) {
		mmap_read_lock(bo->mm);
		got = pin_user_pages_remote(bo->mm, bo->user_addr + (pos << PAGE_SHIFT),
					    min_t(u64, n - pos, SIM_CURSOR_PAGES),
					    bo->read_only ? 0 : FOLL_WRITE, pages, NULL);
		mmap_read_unlock(bo->mm);
		if (got <= 0) {
			ret = got ? got : -EFAULT;
		} else {
			unpin_user_pages(pages, got);
			pos += got;
		}
		cond_resched();
	}
	mmput_async(bo->mm);
	return ret;
}

/*
 * The dma-buf of the BO with a reference for the caller. The same BO gives the same
 * dma-buf (and inode) as long as any GEM handle or KFD handle to it exists.
 */
struct dma_buf *sim_bo_dmabuf(struct sim_bo *bo, u32 flags)
{
	struct drm_gem_object *obj = &bo->base;
	struct dma_buf *dmabuf;

	mutex_lock(&obj->dev->object_name_lock);
	dmabuf = obj->dma_buf;
	if (!dmabuf) {
		dmabuf = sim_bo_export(obj, flags);
		if (!IS_ERR(dmabuf))
			obj->dma_buf = dmabuf;
	}
	if (!IS_ERR(dmabuf))
		get_dma_buf(dmabuf);
	mutex_unlock(&obj->dev->object_name_lock);
	return dmabuf;
}

/* The BO behind a dma-buf of this device, not referenced; NULL for any other dma-buf. */
struct sim_bo *sim_bo_from_dmabuf(struct dma_buf *dmabuf)
{
	/* Only drm_gem_prime_export() makes dma-bufs owned by this module. */
	if (dmabuf->owner != THIS_MODULE)
		return NULL;
	return to_sim_bo((struct drm_gem_object *)dmabuf->priv);
}

/*
 * A KFD handle counts as a GEM handle. The real driver keeps one in an internal DRM
 * client; here the count is kept directly, so that the core caches and drops
 * obj->dma_buf by the same rule: the first handle, whichever kind it is of, takes a
 * reference, the last one gives it back. dmabuf: what the handle was imported from, or NULL.
 */
void sim_bo_kfd_get(struct sim_bo *bo, struct dma_buf *dmabuf)
{
	struct drm_gem_object *obj = &bo->base;

	mutex_lock(&obj->dev->object_name_lock);
	if (!obj->handle_count++)
		drm_gem_object_get(obj);
	if (dmabuf && !obj->dma_buf) {
		get_dma_buf(dmabuf);
		obj->dma_buf = dmabuf;
	}
	mutex_unlock(&obj->dev->object_name_lock);
}

void sim_bo_kfd_put(struct sim_bo *bo)
{
	struct drm_gem_object *obj = &bo->base;
	struct dma_buf *dmabuf = NULL;
	bool last;

	mutex_lock(&obj->dev->object_name_lock);
	last = !--obj->handle_count;
	if (last) {
		dmabuf = obj->dma_buf;
		obj->dma_buf = NULL;
	}
	mutex_unlock(&obj->dev->object_name_lock);
	if (dmabuf)
		dma_buf_put(dmabuf);
	if (last)
		drm_gem_object_put(obj);
}
