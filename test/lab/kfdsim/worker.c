// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The engine behind user queues: one kernel thread per process polls the write pointers.
 * It holds run_lock for a packet at a time, so an eviction waits for one packet at most.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/minmax.h>
#include <linux/sched/mm.h>

#include "kfdsim.h"

#define SDMA_MAX_DWORDS		16	/* no packet but a NOP is longer */
#define SIM_BURST		32	/* packets of one queue before the next gets a turn */
/* Polling gets lazier the longer nothing happened: an idle GPU process costs next to nothing. */
#define SIM_BUSY_NS		(20 * NSEC_PER_MSEC)
#define SIM_LAZY_NS		(500 * NSEC_PER_MSEC)

void sim_queue_fault(struct sim_process *p, struct sim_queue *q, u64 va, bool write)
{
	q->halted = true;
	atomic64_inc(&sim_count.gpu_faults);
	pr_warn_ratelimited("queue %u of process %d halted: %s fault at %#llx\n", q->id,
			    task_pid_nr(p->lead), write ? "write" : "read", va);
	sim_event_memory_fault(q->pdd, va, write);
}

static bool sim_queue_active(struct sim_queue *q)
{
	return !q->halted && q->ring && q->ring_size && q->percent;
}

static bool sim_sdma_publish(struct sim_process *p, struct sim_queue *q)
{
	if (q->published == q->pos)
		return true;
	if (sim_vm_write64(q->pdd->vm, q->rptr, q->pos)) {
		sim_queue_fault(p, q, q->rptr, true);
		return false;
	}
	q->published = q->pos;
	return true;
}

/* Bytes of the packet at pos, copied out of the ring; 0 if it is not all there yet. */
static u32 sim_sdma_fetch(struct sim_process *p, struct sim_queue *q, u64 wptr, u32 *dw)
{
	u64 have = wptr - q->pos, at, n;
	u32 done = 0;
	int len;

	if (have < 4)
		return 0;
	memset(dw, 0, SDMA_MAX_DWORDS * 4);
	have = min_t(u64, have, SDMA_MAX_DWORDS * 4);
	while (done < have) {
		at = (q->pos + done) & (q->ring_size - 1);
		n = min(have - done, q->ring_size - at);
		if (sim_vm_read(q->pdd->vm, q->ring + at, (u8 *)dw + done, n)) {
			sim_queue_fault(p, q, q->ring + at, false);
			return 0;
		}
		done += n;
	}
	len = sim_sdma_packet_dwords(dw[0]);
	if (len < 0) {
		q->halted = true;
		pr_warn_ratelimited("queue %u of process %d halted: bad SDMA packet %08x\n", q->id,
				    task_pid_nr(p->lead), dw[0]);
		return 0;
	}
	return (u64)len * 4 <= wptr - q->pos ? len * 4 : 0;
}

/* Try one packet; true if there may be more to do at once. */
static bool sim_sdma_step(struct sim_process *p, struct sim_queue *q, u64 now)
{
	struct sim_sdma sdma = { .vm = q->pdd->vm, .process = p };
	u32 dw[SDMA_MAX_DWORDS], len;
	u64 wptr;
	int ret;

	if (q->retiring) {
		if (q->retire_at > now)
			return false;
		q->pos += q->retiring;
		q->retiring = 0;
	}
	if (!sim_sdma_publish(p, q))
		return false;
	if (sim_vm_read64(q->pdd->vm, q->wptr, &wptr)) {
		sim_queue_fault(p, q, q->wptr, false);
		return false;
	}
	if ((s64)(wptr - q->pos) <= 0)
		return false;
	len = sim_sdma_fetch(p, q, wptr, dw);
	if (!len)
		return false;
	ret = sim_sdma_exec(&sdma, dw);
	if (ret == -EFAULT || ret == -EIO)
		sim_queue_fault(p, q, sdma.fault_va, sdma.fault_write);
	if (ret)
		return false;
	if (sdma.bytes)
		q->retire_at = sim_engine_run(q->pdd->gpu, q->sdma_id % q->pdd->gpu->num_sdma,
					      now, sdma.bytes, sdma.delay);
	q->retiring = len;
	return true;
}

static bool sim_worker_round(struct sim_process *p, u64 *next)
{
	struct sim_queue *q;
	bool did = false;
	int i;

	/* A dying process has no userptr pages any more: that is no fault of its queues. */
	if (!mmget_not_zero(p->mm))
		return false;
	mutex_lock(&p->run_lock);
	list_for_each_entry(q, &p->queues, link) {
		for (i = 0; i < SIM_BURST && !p->evicted && sim_queue_active(q); i++) {
			/* A PM4 compute queue is accepted and never progresses: no CP here. */
			if (q->type == SIM_QUEUE_COMPUTE) {
				if (q->format != SIM_FORMAT_AQL || !sim_aql_step(p, q))
					break;
			} else if (!sim_sdma_step(p, q, ktime_get_ns())) {
				if (q->retiring)
					*next = min(*next, q->retire_at);
				break;
			}
			did = true;
		}
	}
	mutex_unlock(&p->run_lock);
	mmput_async(p->mm);
	return did;
}

static void sim_worker_pause(u64 idle, u64 next)
{
	u64 us = idle < SIM_BUSY_NS ? 100 : idle < SIM_LAZY_NS ? 500 : 2000, now = ktime_get_ns();

	if (next != U64_MAX)
		us = min(us, next > now ? (next - now) / NSEC_PER_USEC + 1 : 1);
	usleep_range_state(us, us + us / 2 + 10, TASK_IDLE);
}

static bool sim_worker_wanted(struct sim_process *p)
{
	return kthread_should_stop() || (!list_empty(&p->queues) && !READ_ONCE(p->evicted));
}

static int sim_worker(void *arg)
{
	struct sim_process *p = arg;
	u64 last = 0, next;

	while (!kthread_should_stop()) {
		wait_event_idle(p->worker_wq, sim_worker_wanted(p));
		next = U64_MAX;
		if (sim_worker_round(p, &next)) {
			last = ktime_get_ns();
			cond_resched();
		} else {
			sim_worker_pause(ktime_get_ns() - last, next);
		}
	}
	return 0;
}

/* Start the worker of p if it does not run yet. Needs p->lock. */
int sim_worker_start(struct sim_process *p)
{
	struct task_struct *task;

	if (p->worker)
		return 0;
	task = kthread_run(sim_worker, p, "kfdsim-%d", task_pid_nr(p->lead));
	if (IS_ERR(task))
		return PTR_ERR(task);
	p->worker = task;
	return 0;
}

/* After this no packet is executed any more. p is dead, so no new worker can start. */
void sim_worker_stop(struct sim_process *p)
{
	if (p->worker)
		kthread_stop(p->worker);
	p->worker = NULL;
}
