// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * debugfs simgpu/objects: the objects of every KFD process, one line each, with all their properties from the driver's
 * own structures. A restored process must have the lines of the dumped one.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/sort.h>

#include "sim.h"

#include "amdgpu_amdkfd.h"
#include "control.h"
#include "kfd_events.h"
#include "kfd_priv.h"

extern struct hlist_head kfd_processes_table[];

/* GPUs of the process that the BO is mapped for. */
static void sim_show_mapped(struct seq_file *m, struct kfd_process *p, const struct kgd_mem *mem)
{
	struct kfd_mem_attachment *attachment;
	unsigned int i;

	for (i = 0; i < p->n_pdds; i++)
		list_for_each_entry(attachment, &mem->attachments, list)
			if (attachment->is_mapped && attachment->bo_va->base.vm == drm_priv_to_vm(p->pdds[i]->drm_priv))
				seq_printf(m, "%u,", p->pdds[i]->user_gpu_id);
}

static void sim_show_memory(struct seq_file *m, struct kfd_process *p, struct kfd_process_device *pdd)
{
	struct kgd_mem *mem;
	int id;

	idr_for_each_entry(&pdd->alloc_idr, mem, id) {
		u64 user = 0;

		amdgpu_ttm_tt_get_userptr(&mem->bo->tbo, &user);
		seq_printf(m, "bo gpu=%u handle=%d va=%#llx size=%lu flags=%#x user=%#llx mapped=", pdd->user_gpu_id, id,
			   mem->va, amdgpu_bo_size(mem->bo), mem->alloc_flags, user);
		sim_show_mapped(m, p, mem);
		seq_putc(m, '\n');
	}
}

/* The position of a queue on the hardware. pos and progress change while it runs. */
static void sim_show_position(struct seq_file *m, const struct queue *q)
{
	struct sim_gpu *g = sim_gpu(q->device->adev);
	struct sim_queue *s;
	u64 position = 0, progress = 0;
	bool halted = false;

	mutex_lock(&g->lock);
	for (s = g->queue; s < g->queue + SIM_QUEUES; s++) {
		if (!s->used || s->mqd_va != q->gart_mqd_addr)
			continue;
		halted = s->halted;
		position = s->rptr;
		progress = s->wave.magic ? s->wave.progress : s->stream.done;
	}
	mutex_unlock(&g->lock);
	seq_printf(m, " halted=%d pos=%llu progress=%llu\n", halted, position, progress);
}

static void sim_show_queue(struct seq_file *m, struct kfd_process *p, const struct queue *q)
{
	const struct queue_properties *q_ = &q->properties;
	struct kfd_process_device *pdd = kfd_get_process_device_data(q->device, p);

	seq_printf(m, "queue id=%u gpu=%u type=%u format=%u ring=%#llx ring_size=%llu rptr=%#lx wptr=%#lx", q_->queue_id,
		   pdd->user_gpu_id, q_->type, q_->format, q_->queue_address, q_->queue_size, (unsigned long)q_->read_ptr,
		   (unsigned long)q_->write_ptr);
	seq_printf(m, " eop=%#llx eop_size=%u save=%#llx save_size=%u ctl_stack=%u", q_->eop_ring_buffer_address,
		   q_->eop_ring_buffer_size, q_->ctx_save_restore_area_address, q_->ctx_save_restore_area_size,
		   q_->ctl_stack_size);
	seq_printf(m, " priority=%u percent=%u doorbell=%u sdma=%u", q_->priority, q_->queue_percent, q->doorbell_id,
		   q->sdma_id);
	sim_show_position(m, q);
}

/* Sorted by id, because RESTORE may reverse the order of the list. */
static void sim_show_queues(struct seq_file *m, struct kfd_process *p)
{
	struct process_queue_node *node;
	unsigned int id;

	for (id = 0; id < KFD_MAX_NUM_OF_QUEUES_PER_PROCESS; id++)
		list_for_each_entry(node, &p->pqm.queues, process_queue_list)
			if (node->q && node->q->properties.queue_id == id)
				sim_show_queue(m, p, node->q);
}

static void sim_show_events(struct seq_file *m, struct kfd_process *p)
{
	struct list_head *waiter;
	struct kfd_event *event;
	unsigned int waiters;
	int id;

	mutex_lock(&p->event_mutex);
	idr_for_each_entry(&p->event_idr, event, id) {
		waiters = 0;
		spin_lock(&event->wq.lock);
		list_for_each(waiter, &event->wq.head)
			waiters++;
		spin_unlock(&event->wq.lock);
		seq_printf(m, "event id=%#x type=%u auto_reset=%d signaled=%d waiters=%u", event->event_id, event->type,
			   event->auto_reset, event->signaled, waiters);
		if (event->type == KFD_EVENT_TYPE_MEMORY)
			seq_printf(m, " fault=%#llx", event->memory_exception_data.va);
		seq_putc(m, '\n');
	}
	mutex_unlock(&p->event_mutex);
}

static void sim_show_process(struct seq_file *m, struct kfd_process *p)
{
	unsigned int i, evicted = 0;

	mutex_lock(&p->mutex);
	for (i = 0; i < p->n_pdds; i++)
		evicted = max(evicted, p->pdds[i]->qpd.evicted);
	seq_printf(m, "process pid=%d paused=%d evicted=%u\n", task_pid_nr(p->lead_thread), p->queues_paused, evicted);
	for (i = 0; i < p->n_pdds; i++)
		sim_show_memory(m, p, p->pdds[i]);
	sim_show_queues(m, p);
	sim_show_events(m, p);
	sim_svm_show(m, p);
	mutex_unlock(&p->mutex);
}

static int sim_objects_show(struct seq_file *m, void *unused)
{
	struct kfd_process *p;
	unsigned int i;

	mutex_lock(&kfd_processes_mutex);
	for (i = 0; i < 1 << KFD_PROCESS_TABLE_SIZE; i++)
		hlist_for_each_entry(p, &kfd_processes_table[i], kfd_processes)
			sim_show_process(m, p);
	mutex_unlock(&kfd_processes_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sim_objects);

void sim_objects_init(struct dentry *dir)
{
	debugfs_create_file("objects", 0400, dir, NULL, &sim_objects_fops);
}
