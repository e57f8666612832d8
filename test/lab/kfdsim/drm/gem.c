// SPDX-License-Identifier: GPL-2.0 OR MIT
/* GEM ioctls of the render node. */
#include <linux/uaccess.h>

#include "kfdsim.h"
#include "drm/later_uapi.h"

#define SIM_VA_FLAGS_VALID (AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_READABLE | \
			    AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE | \
			    AMDGPU_VM_MTYPE_MASK | AMDGPU_VM_PAGE_NOALLOC)
#define SIM_DOMAINS (AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_VRAM)

int sim_gem_create_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_gem_create *args = data;
	struct drm_amdgpu_gem_create_in in = args->in;
	struct sim_bo *bo = ERR_PTR(-ENOMEM);
	u32 handle;
	int ret;

	if (!in.domains || in.domains & ~SIM_DOMAINS || in.domain_flags & ~sim_behaves_as()->create_flags)
		return -EINVAL;
	if (in.domains & AMDGPU_GEM_DOMAIN_VRAM)
		bo = sim_bo_create(sim_gpu_of(dev), SIM_BO_VRAM, in.bo_size);
	/* Where VRAM is full it may be elsewhere from then on: amdgpu_gem.c:amdgpu_gem_create_ioctl @ 6.12.117. */
	if (bo == ERR_PTR(-ENOMEM) && in.domains == AMDGPU_GEM_DOMAIN_VRAM)
		in.domains |= AMDGPU_GEM_DOMAIN_GTT;
	if (bo == ERR_PTR(-ENOMEM) && in.domains & ~AMDGPU_GEM_DOMAIN_VRAM)
		bo = sim_bo_create(sim_gpu_of(dev), SIM_BO_GTT, in.bo_size);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	bo->domains = in.domains;
	/* CPU_ACCESS_REQUIRED is but a hint until a CPU does: amdgpu_object.c:amdgpu_bo_create @ 6.12.117. */
	bo->create_flags = (in.domain_flags & ~(u64)AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED) |
			   AMDGPU_GEM_CREATE_VRAM_CLEARED;
	bo->alignment = in.alignment;
	ret = drm_gem_handle_create(file, &bo->base, &handle);
	sim_bo_put(bo);
	if (ret)
		return ret;
	memset(args, 0, sizeof(*args));
	args->out.handle = handle;
	return 0;
}

int sim_gem_userptr_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	const u32 valid = AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY |
			  AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER;
	struct drm_amdgpu_gem_userptr *args = data;
	struct sim_bo *bo;
	int ret = 0;

	args->addr = untagged_addr(args->addr);
	if (offset_in_page(args->addr | args->size) || args->flags & ~valid)
		return -EINVAL;
	if (!args->size || args->addr + args->size < args->addr)
		return -EINVAL;
	/* What the GPU may write must be watched for CPU-side changes. */
	if (!(args->flags & AMDGPU_GEM_USERPTR_READONLY) &&
	    !(args->flags & AMDGPU_GEM_USERPTR_REGISTER))
		return -EACCES;
	bo = sim_bo_create_userptr(sim_gpu_of(dev), current->mm, args->addr, args->size,
				   args->flags & AMDGPU_GEM_USERPTR_READONLY);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	if (args->flags & AMDGPU_GEM_USERPTR_VALIDATE)
		ret = sim_bo_probe_user(bo);
	if (!ret)
		ret = drm_gem_handle_create(file, &bo->base, &args->handle);
	sim_bo_put(bo);
	return ret;
}

int sim_gem_mmap_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_gem_mmap *args = data;
	struct drm_gem_object *obj = drm_gem_object_lookup(file, args->in.handle);
	int ret = 0;

	if (!obj)
		return -ENOENT;
	if (!to_sim_bo(obj)->pages ||
	    to_sim_bo(obj)->create_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS)
		ret = -EPERM;
	else
		args->out.addr_ptr = drm_vma_node_offset_addr(&obj->vma_node);
	drm_gem_object_put(obj);
	return ret;
}

int sim_gem_va_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct drm_amdgpu_gem_va *args = data;
	struct sim_vm *vm = file->driver_priv;
	struct drm_gem_object *obj;
	int ret;

	if (args->flags & ~SIM_VA_FLAGS_VALID)
		return -EINVAL;
	/* Of the upper half the driver keeps and tells 48 bits: amdgpu_gem.c:amdgpu_gem_va_ioctl @ 6.12.117, 7.3.4. */
	args->va_address = sim_va(args->va_address);
	if (args->operation >= AMDGPU_VA_OP_UNMAP && args->operation <= AMDGPU_VA_OP_REPLACE)
		sim_submissions_flush(vm);
	if (args->operation == AMDGPU_VA_OP_CLEAR)
		return sim_vm_clear(vm, args->va_address, args->map_size);
	if (args->operation < AMDGPU_VA_OP_MAP || args->operation > AMDGPU_VA_OP_REPLACE)
		return -EINVAL;
	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	switch (args->operation) {
	case AMDGPU_VA_OP_UNMAP:
		ret = sim_vm_unmap(vm, to_sim_bo(obj), args->va_address);
		break;
	case AMDGPU_VA_OP_REPLACE:
		ret = sim_vm_clear(vm, args->va_address, args->map_size);
		if (ret)
			break;
		fallthrough;
	default:
		ret = sim_vm_map(vm, to_sim_bo(obj), args->va_address, args->map_size,
				 args->offset_in_bo, args->flags, false);
	}
	drm_gem_object_put(obj);
	return ret;
}

int sim_gem_op_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_gem_op *args = data;
	struct drm_amdgpu_gem_create_in info = {};
	struct drm_gem_object *obj = drm_gem_object_lookup(file, args->handle);
	struct sim_bo *bo;
	int ret = 0;

	if (!obj)
		return -ENOENT;
	bo = to_sim_bo(obj);
	switch (args->op) {
	case AMDGPU_GEM_OP_GET_GEM_CREATE_INFO:
		info.bo_size = obj->size;
		info.alignment = max_t(u64, bo->alignment, PAGE_SIZE);
		info.domains = bo->domains;
		info.domain_flags = bo->create_flags;
		if (copy_to_user(u64_to_user_ptr(args->value), &info, sizeof(info)))
			ret = -EFAULT;
		break;
	case AMDGPU_GEM_OP_SET_PLACEMENT:
		if (obj->import_attach && args->value & AMDGPU_GEM_DOMAIN_VRAM)
			ret = -EINVAL;
		else if (bo->kind == SIM_BO_USERPTR)
			ret = -EPERM;
		else
			bo->domains = args->value & SIM_DOMAINS;
		break;
	case SIM_GEM_OP_GET_MAPPING_INFO:
		ret = sim_gem_get_mapping_info(file, bo, args);
		break;
	default:
		ret = -EINVAL;
	}
	drm_gem_object_put(obj);
	return ret;
}

int sim_gem_metadata_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct drm_amdgpu_gem_metadata *args = data;
	struct drm_gem_object *obj = drm_gem_object_lookup(file, args->handle);
	struct sim_bo *bo;
	int ret = 0;

	if (!obj)
		return -ENOENT;
	bo = to_sim_bo(obj);
	mutex_lock(&bo->lock);
	if (args->op == AMDGPU_GEM_METADATA_OP_GET_METADATA) {
		args->data.tiling_info = bo->tiling_info;
		args->data.flags = bo->metadata_flags;
		args->data.data_size_bytes = bo->metadata_size;
		memcpy(args->data.data, bo->metadata, bo->metadata_size);
	} else if (args->op != AMDGPU_GEM_METADATA_OP_SET_METADATA ||
		   args->data.data_size_bytes > sizeof(bo->metadata)) {
		ret = -EINVAL;
	} else {
		bo->tiling_info = args->data.tiling_info;
		bo->metadata_flags = args->data.flags;
		bo->metadata_size = args->data.data_size_bytes;
		memcpy(bo->metadata, args->data.data, bo->metadata_size);
	}
	mutex_unlock(&bo->lock);
	drm_gem_object_put(obj);
	return ret;
}

int sim_gem_wait_idle_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_gem_wait_idle *args = data;
	struct drm_gem_object *obj = drm_gem_object_lookup(file, args->in.handle);
	u64 timeout = args->in.timeout;
	int ret;

	if (!obj)
		return -ENOENT;
	ret = sim_submission_wait(atomic64_read(&to_sim_bo(obj)->busy_until), sim_deadline(timeout));
	if (!ret || ret == -ETIME) {
		memset(args, 0, sizeof(*args));
		args->out.status = ret == -ETIME;
		args->out.domain = to_sim_bo(obj)->kind == SIM_BO_VRAM ? AMDGPU_GEM_DOMAIN_VRAM :
									 AMDGPU_GEM_DOMAIN_GTT;
		ret = 0;
	}
	drm_gem_object_put(obj);
	return ret;
}
