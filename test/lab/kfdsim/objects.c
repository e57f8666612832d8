// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * debugfs simgpu/objects: what every KFD process has, one line an object with all that makes it
 * what it is. A restored process has to look as the one that was dumped did.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "kfdsim.h"
#include "memory/svm.h"

/* Needs p->lock. */
static void sim_show_memory(struct seq_file *m, struct sim_pdd *pdd)
{
	struct sim_mem *mem;
	unsigned int i;
	int id;

	idr_for_each_entry(&pdd->mems, mem, id) {
		seq_printf(m, "bo gpu=%u handle=%d va=%#llx size=%llu flags=%#x user=%#llx mapped=",
			   pdd->user_gpu_id, id, mem->va, mem->size, mem->flags,
			   mem->bo->user_addr);
		for (i = 0; i < pdd->p->nr_pdds; i++)
			if (mem->mapped & BIT(i))
				seq_printf(m, "%u,", pdd->p->pdds[i].user_gpu_id);
		seq_putc(m, '\n');
	}
}

/* Needs run_lock. pos and progress move as the queue runs. */
static void sim_show_queue(struct seq_file *m, const struct sim_queue *q)
{
	seq_printf(m, "queue id=%u gpu=%u type=%u format=%u ring=%#llx ring_size=%llu rptr=%#llx wptr=%#llx",
		   q->id, q->pdd->user_gpu_id, q->type, q->format, q->ring, q->ring_size, q->rptr,
		   q->wptr);
	seq_printf(m, " eop=%#llx eop_size=%u save=%#llx save_size=%u ctl_stack=%u", q->eop,
		   q->eop_size, q->cwsr, q->cwsr_size, q->ctl_stack_size);
	seq_printf(m, " priority=%u percent=%u doorbell=%u sdma=%u halted=%d pos=%llu progress=%llu\n",
		   q->priority, q->percent, q->doorbell_id, q->sdma_id, q->halted, q->pos,
		   q->wave.magic ? q->wave.progress : q->progress);
}

static void sim_show_events(struct seq_file *m, struct sim_process *p)
{
	struct list_head *waiter;
	struct sim_event *ev;
	unsigned int waiters;
	int id;

	mutex_lock(&p->event_lock);
	idr_for_each_entry(&p->events, ev, id) {
		waiters = 0;
		list_for_each(waiter, &ev->waiters)
			waiters++;
		seq_printf(m, "event id=%#x type=%u auto_reset=%d signaled=%d waiters=%u", ev->id,
			   ev->type, ev->auto_reset, ev->signaled, waiters);
		if (ev->type == KFD_IOC_EVENT_MEMORY)
			seq_printf(m, " fault=%#llx", ev->memory.va);
		seq_putc(m, '\n');
	}
	mutex_unlock(&p->event_lock);
}

static void sim_show_svm(struct seq_file *m, struct sim_process *p)
{
	struct sim_svm_range *r;

	mutex_lock(&p->svm.lock);
	for (r = sim_svm_first(p, 0, ULONG_MAX); r; r = sim_svm_next(r))
		seq_printf(m, "svm first=%#lx last=%#lx preferred=%#x prefetch=%#x flags=%#x "
			   "granularity=%u access=%#llx in_place=%#llx\n",
			   r->it.start, r->it.last, r->attrs.preferred, r->attrs.prefetch,
			   r->attrs.flags, r->attrs.granularity, r->attrs.access,
			   r->attrs.in_place);
	mutex_unlock(&p->svm.lock);
}

/* Queues by their ids: a blob has them in the order of the list, which a restore may turn round. */
static void sim_show_queues(struct seq_file *m, struct sim_process *p)
{
	struct sim_queue *q;
	u32 id;

	sim_run_lock(p);
	for_each_set_bit(id, p->queue_slots, SIM_MAX_QUEUES) {
		q = sim_queue_find(p, id);
		if (q)
			sim_show_queue(m, q);
	}
	mutex_unlock(&p->run_lock);
}

static int sim_objects_show(struct seq_file *m, void *unused)
{
	struct sim_process *p, *next;
	unsigned int i;

	for (p = sim_process_after(NULL); p; p = next) {
		mutex_lock(&p->lock);
		/* PID of the leader in the initial namespace. */
		seq_printf(m, "process pid=%d paused=%d evicted=%u\n", task_pid_nr(p->lead),
			   p->paused, p->evicted);
		for (i = 0; i < p->nr_pdds; i++)
			sim_show_memory(m, &p->pdds[i]);
		sim_show_queues(m, p);
		sim_show_events(m, p);
		sim_show_svm(m, p);
		mutex_unlock(&p->lock);
		next = sim_process_after(p);
		sim_process_put(p);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sim_objects);

void sim_objects_init(struct dentry *dir)
{
	debugfs_create_file("objects", 0400, dir, NULL, &sim_objects_fops);
}
