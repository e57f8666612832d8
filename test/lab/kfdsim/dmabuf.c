// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Sharing of KFD memory through dma-bufs. */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/uaccess.h>

#include "kfdsim.h"

static u32 sim_bo_kfd_type(struct sim_bo *bo)
{
	return bo->kind == SIM_BO_VRAM ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM :
					 KFD_IOC_ALLOC_MEM_FLAGS_GTT;
}

int sim_kfd_get_dmabuf_info(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_dmabuf_info_args *args = data;
	u32 room = args->metadata_ptr ? args->metadata_size : 0;
	struct dma_buf *dmabuf = dma_buf_get(args->dmabuf_fd);
	struct sim_bo *bo;
	int ret = 0;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	bo = sim_bo_from_dmabuf(dmabuf);
	if (!bo) {
		ret = -EINVAL;
	} else {
		args->size = bo->base.size;
		args->gpu_id = sim_bo_gpu(bo)->gpu_id;
		args->flags = sim_bo_kfd_type(bo);
		if (bo->create_flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED)
			args->flags |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
		mutex_lock(&bo->lock);
		args->metadata_size = bo->metadata_size;
		if (room && copy_to_user(u64_to_user_ptr(args->metadata_ptr), bo->metadata,
					 min(room, bo->metadata_size)))
			ret = -EFAULT;
		mutex_unlock(&bo->lock);
	}
	dma_buf_put(dmabuf);
	return ret;
}

int sim_kfd_import_dmabuf(struct sim_process *p, void *data)
{
	struct kfd_ioctl_import_dmabuf_args *args = data;
	struct dma_buf *dmabuf = dma_buf_get(args->dmabuf_fd);
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	struct sim_bo *bo;
	int id, ret = 0;

	mutex_lock(&p->lock);
	pdd = sim_pdd_by_id(p, args->gpu_id);
	bo = IS_ERR(dmabuf) ? NULL : sim_bo_from_dmabuf(dmabuf);
	if (!pdd)
		ret = -EINVAL;
	else if (IS_ERR(dmabuf))
		ret = PTR_ERR(dmabuf);
	else if (!bo)
		ret = -EINVAL;
	else if (p->dead || !pdd->vm)
		ret = -ESRCH;
	if (!ret) {
		mem = sim_mem_insert(pdd, bo, args->va_addr,
				     sim_bo_kfd_type(bo) | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
				     KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE, dmabuf, -1, &id);
		ret = PTR_ERR_OR_ZERO(mem);
	}
	if (!ret)
		args->handle = (u64)args->gpu_id << 32 | id;
	mutex_unlock(&p->lock);
	if (!IS_ERR(dmabuf))
		dma_buf_put(dmabuf);
	return ret;
}

int sim_kfd_export_dmabuf(struct sim_process *p, void *data)
{
	struct kfd_ioctl_export_dmabuf_args *args = data;
	struct dma_buf *dmabuf = ERR_PTR(-EINVAL);
	struct sim_mem *mem;
	int ret;

	mutex_lock(&p->lock);
	mem = sim_mem_lookup(p, args->handle);
	if (mem)
		dmabuf = sim_bo_dmabuf(mem->bo,
				       mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE ? O_RDWR : 0);
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
