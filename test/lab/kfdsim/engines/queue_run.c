// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What user queues of all kinds have in common while they run. */
#include "kfdsim.h"

/* The process's queues stop, and nothing makes them go on: kfd_debug.c:kfd_set_dbg_ev_from_interrupt @ 6.12.117. Needs
 * run_lock. */
void sim_queue_fault(struct sim_process *p, struct sim_queue *q, u64 va, bool write)
{
	q->halted = true;
	atomic64_inc(&sim_count.gpu_faults);
	pr_warn_ratelimited("queue %u of process %d halted: %s fault at %#llx\n", q->id,
			    task_pid_nr(p->lead), write ? "write" : "read", va);
	sim_process_evict_locked(p);
	sim_event_memory_fault(q->pdd, va, write);
}

/* Something the engine cannot execute; code is its first dword. */
void sim_queue_halt(struct sim_process *p, struct sim_queue *q, const char *what, u32 code)
{
	q->halted = true;
	pr_warn_ratelimited("queue %u of process %d halted: %s %08x\n", q->id,
			    task_pid_nr(p->lead), what, code);
}

/*
 * Is there anything between pos and the write pointer, and may it begin? A queue that was
 * empty notices after the latency of a submission. If not, *step says what to wait for.
 */
bool sim_queue_pending(struct sim_process *p, struct sim_queue *q, u64 now, u64 *wptr,
		       enum sim_step *step)
{
	*step = SIM_STEP_IDLE;
	if (sim_vm_read64(q->pdd->vm, q->wptr, wptr)) {
		sim_queue_fault(p, q, q->wptr, false);
		return false;
	}
	if ((s64)(*wptr - q->pos) <= 0) {
		q->idle = true;
		return false;
	}
	if (q->idle) {
		q->idle = false;
		q->ready_at = now + sim_submit_ns();
		*step = SIM_STEP_TIME;
		return q->ready_at <= now;
	}
	return true;
}

/* Try one packet, or a part of one. Needs run_lock. */
enum sim_step sim_queue_step(struct sim_process *p, struct sim_queue *q, u64 now)
{
	if (q->halted || q->partial || !q->ring || !q->ring_size || !q->percent)
		return SIM_STEP_IDLE;
	if (q->ready_at > now)
		return SIM_STEP_TIME;
	if (q->type != SIM_QUEUE_COMPUTE)
		return sim_sdma_step(p, q, now);
	/* A PM4 compute queue is accepted and never progresses: no CP here. */
	return q->format == SIM_FORMAT_AQL ? sim_aql_step(p, q, now) : SIM_STEP_IDLE;
}
