// SPDX-License-Identifier: GPL-2.0 OR MIT
/* KFD memory: allocation, handles, mapping into the compute VM. */
#include <linux/uaccess.h>
#include <drm/drm_vma_manager.h>

#include "kfdsim.h"

#define SIM_MEM_TYPES (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT | \
		       KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | \
		       KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)

/* handle = user gpu id << 32 | number; NULL if it is not one of p's. Needs p->lock. */
struct sim_mem *sim_mem_lookup(struct sim_process *p, u64 handle)
{
	if (handle >> 32 != p->user_gpu_id || (u32)handle > INT_MAX)
		return NULL;
	return idr_find(&p->mems, (u32)handle);
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
struct sim_bo *sim_mem_make_bo(struct sim_process *p, u32 flags, u64 size, u64 user_addr)
{
	struct sim_bo *bo;

	switch (flags & SIM_MEM_TYPES) {
	case KFD_IOC_ALLOC_MEM_FLAGS_VRAM:
		bo = sim_bo_create(SIM_BO_VRAM, size);
		if (!IS_ERR(bo)) {
			bo->domains = AMDGPU_GEM_DOMAIN_VRAM;
			bo->create_flags = flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC ?
					   AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED : 0;
		}
		return bo;
	case KFD_IOC_ALLOC_MEM_FLAGS_GTT:
		bo = sim_bo_create(SIM_BO_GTT, size);
		if (!IS_ERR(bo))
			bo->domains = AMDGPU_GEM_DOMAIN_GTT;
		return bo;
	case KFD_IOC_ALLOC_MEM_FLAGS_USERPTR:
		if (!user_addr || offset_in_page(user_addr))
			return ERR_PTR(-EINVAL);
		return sim_bo_create_userptr(p->mm, untagged_addr(user_addr), size,
					     !(flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE));
	case KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL:
		return size == SIM_DOORBELL_SLICE ? sim_bo_create(SIM_BO_MMIO, size) :
						    ERR_PTR(-EINVAL);
	case KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP:
		return size == PAGE_SIZE ? sim_bo_create(SIM_BO_MMIO, size) : ERR_PTR(-EINVAL);
	default:
		return ERR_PTR(-EINVAL);
	}
}

/*
 * Give bo a handle; want_id < 0 for any. The caller keeps its own reference to bo. Needs
 * p->lock. -ENOMEM if the wanted number is taken, as the real driver has it.
 */
struct sim_mem *sim_mem_insert(struct sim_process *p, struct sim_bo *bo, u64 va, u32 flags,
			       struct dma_buf *dmabuf, int want_id, int *id)
{
	struct sim_mem *mem = kzalloc(sizeof(*mem), GFP_KERNEL);
	int ret;

	if (!mem)
		return ERR_PTR(-ENOMEM);
	mem->bo = bo;
	mem->va = va;
	mem->size = bo->base.size;
	mem->flags = flags;
	ret = drm_vma_node_allow(&bo->base.vma_node, p->drm_priv);
	if (ret)
		goto err_free;
	if (want_id < 0)
		ret = idr_alloc(&p->mems, mem, 0, 0, GFP_KERNEL);
	else
		ret = idr_alloc(&p->mems, mem, want_id, want_id + 1, GFP_KERNEL);
	if (ret < 0) {
		ret = -ENOMEM;
		goto err_revoke;
	}
	*id = ret;
	sim_bo_kfd_get(bo, dmabuf);
	if (bo->kind == SIM_BO_VRAM)
		p->vram_usage += mem->size;
	return mem;

err_revoke:
	drm_vma_node_revoke(&bo->base.vma_node, p->drm_priv);
err_free:
	kfree(mem);
	return ERR_PTR(ret);
}

void sim_mem_remove(struct sim_process *p, struct sim_mem *mem, int id)
{
	if (mem->mapped)
		sim_vm_unmap(p->vm, mem->bo, mem->va);
	idr_remove(&p->mems, id);
	if (mem->bo->kind == SIM_BO_VRAM)
		p->vram_usage -= mem->size;
	drm_vma_node_revoke(&mem->bo->base.vma_node, p->drm_priv);
	sim_bo_kfd_put(mem->bo);
	kfree(mem);
}

/* Map at its address for the GPU; mapping twice is no error. */
int sim_mem_map(struct sim_process *p, struct sim_mem *mem)
{
	u32 flags = AMDGPU_VM_PAGE_READABLE;
	int ret;

	if (mem->mapped)
		return 0;
	if (mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)
		flags |= AMDGPU_VM_PAGE_WRITEABLE;
	if (mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE)
		flags |= AMDGPU_VM_PAGE_EXECUTABLE;
	ret = sim_vm_map(p->vm, mem->bo, mem->va, mem->size, 0, flags);
	if (!ret)
		mem->mapped = true;
	return ret;
}

int sim_kfd_alloc_memory(struct sim_process *p, void *data)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *args = data;
	struct sim_mem *mem;
	struct sim_bo *bo;
	int id, ret = 0;

	if (!args->size)
		return -EINVAL;
	mutex_lock(&p->lock);
	if (args->gpu_id != p->user_gpu_id)
		ret = -EINVAL;
	else if (p->dead || !p->vm)
		ret = -ESRCH;
	if (ret)
		goto out;
	bo = sim_mem_make_bo(p, args->flags, args->size, args->mmap_offset);
	if (IS_ERR(bo)) {
		ret = PTR_ERR(bo);
		goto out;
	}
	if (bo->kind == SIM_BO_USERPTR)
		ret = sim_bo_probe_user(bo);
	if (!ret) {
		mem = sim_mem_insert(p, bo, args->va_addr, args->flags, NULL, -1, &id);
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
		sim_mem_remove(p, mem, (u32)args->handle);
	mutex_unlock(&p->lock);
	return ret;
}

/* MAP and UNMAP arguments have the same layout and the same checks. */
static int sim_map_devices(struct sim_process *p, struct kfd_ioctl_map_memory_to_gpu_args *args)
{
	u32 __user *ids = u64_to_user_ptr(args->device_ids_array_ptr);
	u32 i, id;

	if (!args->n_devices || args->n_success > args->n_devices)
		return -EINVAL;
	for (i = args->n_success; i < args->n_devices; i++) {
		if (get_user(id, ids + i))
			return -EFAULT;
		if (id != p->user_gpu_id)
			return -EINVAL;
	}
	return 0;
}

int sim_kfd_map_memory(struct sim_process *p, void *data)
{
	struct kfd_ioctl_map_memory_to_gpu_args *args = data;
	struct sim_mem *mem;
	int ret;

	mutex_lock(&p->lock);
	mem = sim_mem_lookup(p, args->handle);
	ret = mem ? sim_map_devices(p, args) : -EINVAL;
	if (!ret)
		ret = sim_mem_map(p, mem);
	if (!ret)
		args->n_success = args->n_devices;
	mutex_unlock(&p->lock);
	return ret;
}

static_assert(sizeof(struct kfd_ioctl_map_memory_to_gpu_args) ==
	      sizeof(struct kfd_ioctl_unmap_memory_from_gpu_args));

int sim_kfd_unmap_memory(struct sim_process *p, void *data)
{
	struct kfd_ioctl_map_memory_to_gpu_args *args = data;
	struct sim_mem *mem;
	int ret;

	mutex_lock(&p->lock);
	mem = sim_mem_lookup(p, args->handle);
	ret = mem ? sim_map_devices(p, args) : -EINVAL;
	if (!ret) {
		if (mem->mapped)
			sim_vm_unmap(p->vm, mem->bo, mem->va);
		mem->mapped = false;
		args->n_success = args->n_devices;
	}
	mutex_unlock(&p->lock);
	return ret;
}

int sim_kfd_available_memory(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_available_memory_args *args = data;

	if (args->gpu_id != p->user_gpu_id)
		return -EINVAL;
	args->available = sim.vram_bytes - sim_vram_used();
	return 0;
}
