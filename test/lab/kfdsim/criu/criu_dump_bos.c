// SPDX-License-Identifier: GPL-2.0 OR MIT
/* BOs of a CHECKPOINT: their part of the blob, their buckets, a dma-buf for each with contents. */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/uaccess.h>

#include "criu/criu_dump.h"

/* What the driver itself keeps below user space's addresses is not saved: kfd_chardev.c:get_process_num_bos. */
static bool sim_mem_is_hidden(struct sim_mem *mem)
{
	return mem->va ? mem->va <= SIM_GPUVM_BASE : mem->pdd->p->kernel->hides_address_0;
}

/* A dma-buf for a bucket, the BO's own or a new one (kfd_chardev.c:criu_get_prime_handle @ 6.12.117, 6.1.192). */
struct dma_buf *sim_criu_dmabuf(struct sim_mem *mem, u32 flags)
{
	return mem->pdd->p->kernel->dmabuf_per_export ? sim_bo_export(&mem->bo->base, flags) :
							sim_mem_dmabuf(mem, flags);
}

/* Needs p->lock. */
u32 sim_dump_count_bos(struct sim_process *p)
{
	struct sim_mem *mem;
	struct sim_pdd *pdd;
	u32 n = 0;
	int id;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		idr_for_each_entry(&pdd->mems, mem, id)
			n += !sim_mem_is_hidden(mem);
	return n;
}

static void sim_dump_mapped(struct sim_mem *mem, struct sim_criu_bo *priv)
{
	struct sim_process *p = mem->pdd->p;
	u32 i, n = 0;

	for (i = 0; i < p->nr_pdds; i++)
		if (mem->mapped & BIT(i))
			priv->mapped_gpuids[n++] = p->pdds[i].user_gpu_id;
}

static int sim_dump_bo(struct sim_dump *d, struct sim_mem *mem, int id, u32 i,
		       struct sim_criu_bo *priv)
{
	struct kfd_criu_bo_bucket *b = &d->buckets[i];
	struct dma_buf *dmabuf;
	int ret;

	b->addr = mem->va;
	b->size = mem->size;
	b->gpu_id = mem->pdd->user_gpu_id;
	b->alloc_flags = mem->flags;
	b->offset = sim_mem_mmap_offset(mem, mem->pdd->gpu->gpu_id);
	b->dmabuf_fd = KFD_INVALID_FD;
	priv->user_addr = mem->bo->user_addr;
	priv->idr_handle = id;
	sim_dump_mapped(mem, priv);
	if (!mem->bo->pages)
		return 0;
	ret = sim_fault_criu(SIM_FAULT_SAVED_BO);
	if (ret)
		return ret;
	dmabuf = sim_criu_dmabuf(mem, mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE ? O_RDWR : 0);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	d->dmabufs[i] = dmabuf;
	return 0;
}

int sim_dump_bos(struct sim_dump *d)
{
	u8 *at = d->blob + sim_dump_bos_offset(d);
	struct sim_process *p = d->p;
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	int id, ret;
	u32 i = 0;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++) {
		idr_for_each_entry(&pdd->mems, mem, id) {
			if (sim_mem_is_hidden(mem))
				continue;
			ret = sim_dump_bo(d, mem, id, i, (struct sim_criu_bo *)(at + i * sim_criu_bo_bytes(p)));
			if (ret)
				return ret;
			i++;
		}
	}
	return 0;
}

/* Reserve descriptors in the caller's table; nothing is visible before sim_dump_install(). */
static int sim_dump_reserve_fds(struct sim_dump *d)
{
	u32 i;
	int fd;

	for (i = 0; i < d->nr_bos; i++) {
		if (!d->dmabufs[i])
			continue;
		fd = get_unused_fd_flags(0);
		if (fd < 0)
			return fd;
		d->buckets[i].dmabuf_fd = fd;
	}
	return 0;
}

void sim_dump_install(struct sim_dump *d)
{
	u32 i;

	for (i = 0; i < d->nr_bos; i++)
		if (d->dmabufs[i])
			fd_install(d->buckets[i].dmabuf_fd, d->dmabufs[i]->file);
}

void sim_dump_unwind(struct sim_dump *d)
{
	u32 i;

	for (i = 0; i < d->nr_bos; i++) {
		if (!d->dmabufs[i])
			continue;
		dma_buf_put(d->dmabufs[i]);
		if (d->buckets[i].dmabuf_fd != KFD_INVALID_FD)
			put_unused_fd(d->buckets[i].dmabuf_fd);
	}
}

int sim_dump_write_bos(struct sim_dump *d, struct kfd_ioctl_criu_args *args)
{
	int ret = sim_dump_reserve_fds(d);

	if (ret)
		return ret;
	if (copy_to_user(u64_to_user_ptr(args->bos), d->buckets,
			 (u64)d->nr_bos * sizeof(*d->buckets)))
		return -EFAULT;
	return sim_dump_put(d, args, sizeof(struct sim_criu_process), sim_dump_objects_offset(d));
}
