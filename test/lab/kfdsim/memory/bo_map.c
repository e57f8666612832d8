// SPDX-License-Identifier: GPL-2.0 OR MIT
/* How CPUs reach a buffer object: mappings of the kernel and of processes, pages of a userptr. */
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>

#include "kernels.h"
#include "kfdsim.h"

#define SIM_FAULT_AROUND 64

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

int sim_bo_gem_vmap(struct drm_gem_object *obj, struct iosys_map *map)
{
	void *vaddr = sim_bo_vmap(to_sim_bo(obj));

	if (!vaddr)
		return -ENOMEM;
	iosys_map_set_vaddr(map, vaddr);
	return 0;
}

/* The kernel mapping is kept for the life of the BO. */
void sim_bo_gem_vunmap(struct drm_gem_object *obj, struct iosys_map *map)
{
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
	/* It is remembered: amdgpu_object.c:amdgpu_bo_fault_reserve_notify @ 6.12.117. */
	mutex_lock(&bo->lock);
	bo->create_flags |= AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
	mutex_unlock(&bo->lock);
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

const struct vm_operations_struct sim_bo_vm_ops = {
	.fault = sim_bo_fault,
	.access = sim_bo_access,
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

int sim_bo_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	struct sim_bo *bo = to_sim_bo(obj);

	if (!bo->pages || bo->create_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS)
		return -EPERM;
	if (vma_is_cow_mapping(vma)) {
		/* The thunk maps invisible VRAM PROT_NONE and private; allow just that. */
		if (vma->vm_flags & VM_ACCESS_FLAGS)
			return -EINVAL;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
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
