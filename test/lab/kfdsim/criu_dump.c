// SPDX-License-Identifier: GPL-2.0 OR MIT
/* CRIU_OP PROCESS_INFO and CHECKPOINT: the state of one process as one blob. */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/pid_namespace.h>
#include <linux/uaccess.h>

#include "criu.h"
#include "kfdsim.h"

struct sim_dump {
	struct sim_process *p;
	u32 nr_bos, nr_objects;
	u64 size;
	u8 *blob;
	struct kfd_criu_bo_bucket *buckets;
	struct dma_buf **dmabufs;	/* by bucket; NULL where there is none */
};

static void sim_dump_count(struct sim_dump *d, struct sim_process *p)
{
	struct sim_event *ev;
	struct sim_queue *q;
	struct sim_mem *mem;
	struct sim_pdd *pdd;
	int id;

	memset(d, 0, sizeof(*d));
	d->p = p;
	d->size = sizeof(struct sim_criu_process) + p->nr_pdds * sizeof(struct sim_criu_device);
	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		idr_for_each_entry(&pdd->mems, mem, id)
			d->nr_bos++;
	d->size += (u64)d->nr_bos * sizeof(struct sim_criu_bo);
	list_for_each_entry(q, &p->queues, link) {
		d->nr_objects++;
		d->size += sizeof(struct sim_criu_queue) + sim_mqd_size(q->type) +
			   q->ctl_stack_size;
	}
	mutex_lock(&p->event_lock);
	idr_for_each_entry(&p->events, ev, id) {
		d->nr_objects++;
		d->size += sizeof(struct sim_criu_event);
	}
	mutex_unlock(&p->event_lock);
}

int sim_criu_process_info(struct sim_process *p, struct kfd_ioctl_criu_args *args)
{
	struct pid_namespace *ns;
	struct sim_dump d;

	mutex_lock(&p->lock);
	if (p->dead || !p->nr_pdds) {
		mutex_unlock(&p->lock);
		return p->dead ? -ESRCH : -ENODEV;
	}
	/* 6.12 evicts on every call, although UNPAUSE takes back one only. */
	sim_process_evict(p);
	p->paused = true;
	sim_dump_count(&d, p);
	ns = task_active_pid_ns(p->lead);
	args->pid = ns ? task_pid_nr_ns(p->lead, ns) : 0;
	args->num_devices = p->nr_pdds;
	args->num_bos = d.nr_bos;
	args->num_objects = d.nr_objects;
	args->priv_data_size = d.size;
	mutex_unlock(&p->lock);
	return 0;
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
	dmabuf = sim_bo_dmabuf(mem->bo,
			       mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE ? O_RDWR : 0);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	d->dmabufs[i] = dmabuf;
	return 0;
}

static int sim_dump_bos(struct sim_dump *d, u8 *at)
{
	struct sim_process *p = d->p;
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	int id, ret;
	u32 i = 0;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++) {
		idr_for_each_entry(&pdd->mems, mem, id) {
			ret = sim_dump_bo(d, mem, id, i, (struct sim_criu_bo *)at + i);
			if (ret)
				return ret;
			i++;
		}
	}
	return 0;
}

static u8 *sim_dump_queues(struct sim_dump *d, u8 *at)
{
	struct sim_queue *q;

	list_for_each_entry(q, &d->p->queues, link) {
		struct sim_criu_queue *priv = (struct sim_criu_queue *)at;
		u8 *mqd = (u8 *)(priv + 1);

		priv->object_type = SIM_CRIU_QUEUE;
		priv->q_address = q->ring;
		priv->q_size = q->ring_size;
		priv->read_ptr_addr = q->rptr;
		priv->write_ptr_addr = q->wptr;
		priv->eop_ring_buffer_address = q->eop;
		priv->ctx_save_restore_area_address = q->cwsr;
		priv->gpu_id = q->pdd->user_gpu_id;
		priv->type = q->type;
		priv->format = q->format;
		priv->q_id = q->id;
		priv->priority = q->priority;
		priv->q_percent = q->percent;
		priv->doorbell_id = q->doorbell_id;
		priv->sdma_id = q->sdma_id;
		priv->eop_ring_buffer_size = q->eop_size;
		priv->ctx_save_restore_area_size = q->cwsr_size;
		priv->ctl_stack_size = q->ctl_stack_size;
		priv->mqd_size = sim_mqd_size(q->type);
		sim_queue_save(q, mqd, mqd + priv->mqd_size);
		at += sizeof(*priv) + priv->mqd_size + priv->ctl_stack_size;
	}
	return at;
}

static u8 *sim_dump_events(struct sim_dump *d, u8 *at)
{
	struct sim_process *p = d->p;
	bool first = true;
	struct sim_event *ev;
	int id;

	idr_for_each_entry(&p->events, ev, id) {
		struct sim_criu_event *priv = (struct sim_criu_event *)at;

		priv->object_type = SIM_CRIU_EVENT;
		if (first && p->event_bo)
			priv->user_handle = p->event_handle;
		first = false;
		priv->event_id = ev->id;
		priv->auto_reset = ev->auto_reset;
		priv->type = ev->type;
		priv->signaled = ev->signaled;
		if (ev->type == KFD_IOC_EVENT_MEMORY)
			memcpy(priv->data, &ev->memory, sizeof(ev->memory));
		else if (ev->type == KFD_IOC_EVENT_HW_EXCEPTION)
			memcpy(priv->data, &ev->hw, sizeof(ev->hw));
		at += sizeof(*priv);
	}
	return at;
}

/* Needs p->lock; event_lock keeps the number of events and their size still. */
static int sim_dump_fill(struct sim_dump *d)
{
	struct sim_criu_process *process = (struct sim_criu_process *)d->blob;
	u8 *bos = d->blob + sizeof(*process) + d->p->nr_pdds * sizeof(struct sim_criu_device);
	u8 *at;

	process->version = SIM_CRIU_VERSION;
	at = bos + (u64)d->nr_bos * sizeof(struct sim_criu_bo);
	at = sim_dump_queues(d, at);
	at = sim_dump_events(d, at);
	if (WARN_ON_ONCE(at != d->blob + d->size))
		return -EINVAL;
	return sim_dump_bos(d, bos);
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

static void sim_dump_install(struct sim_dump *d)
{
	u32 i;

	for (i = 0; i < d->nr_bos; i++)
		if (d->dmabufs[i])
			fd_install(d->buckets[i].dmabuf_fd, d->dmabufs[i]->file);
}

static void sim_dump_unwind(struct sim_dump *d)
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

static int sim_dump_write(struct sim_dump *d, struct kfd_ioctl_criu_args *args)
{
	struct kfd_criu_device_bucket __user *devices = u64_to_user_ptr(args->devices);
	struct sim_pdd *pdd;
	u32 i;

	/* Only the ids are written: drm_fd belongs to the caller. */
	for (i = 0; i < d->p->nr_pdds; i++) {
		pdd = &d->p->pdds[i];
		if (put_user(pdd->user_gpu_id, &devices[i].user_gpu_id) ||
		    put_user(pdd->gpu->gpu_id, &devices[i].actual_gpu_id))
			return -EFAULT;
	}
	if (copy_to_user(u64_to_user_ptr(args->bos), d->buckets,
			 (u64)d->nr_bos * sizeof(*d->buckets)) ||
	    copy_to_user(u64_to_user_ptr(args->priv_data), d->blob, d->size))
		return -EFAULT;
	return 0;
}

static int sim_dump_run(struct sim_dump *d, struct kfd_ioctl_criu_args *args)
{
	int ret = -ENOMEM;

	/* One more than needed: no BO at all is a valid process. */
	d->blob = kvzalloc(d->size, GFP_KERNEL);
	d->buckets = kvcalloc(d->nr_bos + 1, sizeof(*d->buckets), GFP_KERNEL);
	d->dmabufs = kvcalloc(d->nr_bos + 1, sizeof(*d->dmabufs), GFP_KERNEL);
	if (d->blob && d->buckets && d->dmabufs) {
		mutex_lock(&d->p->event_lock);
		ret = sim_dump_fill(d);
		mutex_unlock(&d->p->event_lock);
		if (!ret)
			ret = sim_dump_reserve_fds(d);
		if (!ret)
			ret = sim_dump_write(d, args);
		if (ret)
			sim_dump_unwind(d);
		else
			sim_dump_install(d);
	}
	kvfree(d->dmabufs);
	kvfree(d->buckets);
	kvfree(d->blob);
	return ret;
}

int sim_criu_checkpoint(struct sim_process *p, struct kfd_ioctl_criu_args *args)
{
	struct sim_dump d;
	int ret = -EINVAL;

	/* Even with num_bos == 0 all three pointers must be there. */
	if (!args->devices || !args->bos || !args->priv_data)
		return -EINVAL;
	mutex_lock(&p->lock);
	if (p->dead) {
		ret = -ESRCH;
	} else if (!p->nr_pdds) {
		ret = -ENODEV;
	} else if (p->paused) {
		sim_dump_count(&d, p);
		if (args->num_devices == p->nr_pdds && args->num_bos == d.nr_bos &&
		    args->num_objects == d.nr_objects && args->priv_data_size == d.size)
			ret = sim_dump_run(&d, args);
	}
	mutex_unlock(&p->lock);
	return ret;
}
