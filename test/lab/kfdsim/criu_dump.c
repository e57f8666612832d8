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
	int id;

	memset(d, 0, sizeof(*d));
	d->p = p;
	d->size = sizeof(struct sim_criu_process) + sizeof(struct sim_criu_device);
	idr_for_each_entry(&p->mems, mem, id)
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
	if (p->dead) {
		mutex_unlock(&p->lock);
		return -ESRCH;
	}
	/* 6.12 evicts on every call, although UNPAUSE takes back one only. */
	sim_process_evict(p);
	p->paused = true;
	sim_dump_count(&d, p);
	ns = task_active_pid_ns(p->lead);
	args->pid = ns ? task_pid_nr_ns(p->lead, ns) : 0;
	args->num_devices = 1;
	args->num_bos = d.nr_bos;
	args->num_objects = d.nr_objects;
	args->priv_data_size = d.size;
	mutex_unlock(&p->lock);
	return 0;
}

static int sim_dump_bos(struct sim_dump *d, u8 *at)
{
	struct sim_process *p = d->p;
	struct sim_mem *mem;
	struct dma_buf *dmabuf;
	u32 i = 0;
	int id;

	idr_for_each_entry(&p->mems, mem, id) {
		struct kfd_criu_bo_bucket *b = &d->buckets[i];
		struct sim_criu_bo *priv = (struct sim_criu_bo *)at + i;

		b->addr = mem->va;
		b->size = mem->size;
		b->gpu_id = p->user_gpu_id;
		b->alloc_flags = mem->flags;
		b->offset = sim_mem_mmap_offset(mem, sim.gpu_id);
		b->dmabuf_fd = KFD_INVALID_FD;
		priv->user_addr = mem->bo->user_addr;
		priv->idr_handle = id;
		if (mem->mapped)
			priv->mapped_gpuids[0] = p->user_gpu_id;
		if (mem->bo->pages) {
			dmabuf = sim_bo_dmabuf(mem->bo,
					       mem->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE ?
					       O_RDWR : 0);
			if (IS_ERR(dmabuf))
				return PTR_ERR(dmabuf);
			d->dmabufs[i] = dmabuf;
		}
		i++;
	}
	return 0;
}

static u8 *sim_dump_queues(struct sim_dump *d, u8 *at)
{
	struct sim_queue *q;

	list_for_each_entry(q, &d->p->queues, link) {
		struct sim_criu_queue *priv = (struct sim_criu_queue *)at;
		struct sim_mqd *mqd = (struct sim_mqd *)(priv + 1);

		priv->object_type = SIM_CRIU_QUEUE;
		priv->q_address = q->ring;
		priv->q_size = q->ring_size;
		priv->read_ptr_addr = q->rptr;
		priv->write_ptr_addr = q->wptr;
		priv->eop_ring_buffer_address = q->eop;
		priv->ctx_save_restore_area_address = q->cwsr;
		priv->gpu_id = d->p->user_gpu_id;
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
		mqd->magic = SIM_MQD_MAGIC;
		mqd->halted = q->halted;
		mqd->pos = q->pos;
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
	u8 *bos = d->blob + sizeof(*process) + sizeof(struct sim_criu_device), *at;

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
	struct kfd_criu_device_bucket device;

	/* Only the ids are written: drm_fd belongs to the caller. */
	if (copy_from_user(&device, u64_to_user_ptr(args->devices), sizeof(device)))
		return -EFAULT;
	device.user_gpu_id = d->p->user_gpu_id;
	device.actual_gpu_id = sim.gpu_id;
	if (copy_to_user(u64_to_user_ptr(args->devices), &device, sizeof(device)) ||
	    copy_to_user(u64_to_user_ptr(args->bos), d->buckets,
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
	} else if (p->paused) {
		sim_dump_count(&d, p);
		if (args->num_devices == 1 && args->num_bos == d.nr_bos &&
		    args->num_objects == d.nr_objects && args->priv_data_size == d.size)
			ret = sim_dump_run(&d, args);
	}
	mutex_unlock(&p->lock);
	return ret;
}
