// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What becomes of a queue when it is unmapped, and how it comes back: engine state in the MQD, of a dispatch that was
 * stopped in the middle the control stack. Its wave is in the save area (save_area.c).
 */
#include <linux/uaccess.h>

#include "criu/criu.h"
#include "kfdsim.h"

/* Needs run_lock. A packet or step that only had to wait for its time is over. */
void sim_queue_preempt(struct sim_queue *q, u64 now)
{
	sim_wave_preempt(q, now);
	sim_queue_retire(q);
	sim_wave_save(q);
	q->ready_at = 0;
}

/* Write the state of an unmapped queue; both have been zeroed before. stack: NULL where the blob has none. */
void sim_queue_save(const struct sim_queue *q, struct sim_mqd *m, struct sim_stack_entry *stack)
{
	m->magic = SIM_MQD_MAGIC;
	m->halted = q->halted;
	m->pos = q->pos;
	m->progress = q->progress;
	m->ctl_stack_size = q->ctl_stack_size;
	if (!q->stopped)
		return;
	m->stack_bytes = sizeof(q->stack);
	if (stack)
		*stack = q->stack;
}

/* The reverse, from what a blob has. -EINVAL if this is no state a queue could be in. */
int sim_queue_load(struct sim_queue *q, const struct sim_mqd *m, const struct sim_stack_entry *stack)
{
	if (m->magic != SIM_MQD_MAGIC || m->ctl_stack_size > SIM_MAX_CTL_STACK)
		return -EINVAL;
	q->ctl_stack_size = m->ctl_stack_size;
	if (m->stack_bytes && (m->stack_bytes != sizeof(*stack) || q->ctl_stack_size < sizeof(*stack) || !q->cwsr ||
			       q->type != SIM_QUEUE_COMPUTE))
		return -EINVAL;
	q->stopped = m->stack_bytes;
	if (stack)
		q->stack = *stack;
	q->halted = m->halted;
	q->pos = m->pos;
	q->progress = m->progress;
	/* Contents are filled in later: the read pointer in memory is written again. */
	q->published = ~q->pos;
	return 0;
}

/*
 * The control stack of a compute queue that is not on the hardware: here, of one that is evicted. What is used of it
 * goes
 * to its end, behind a header at its beginning (kfd_mqd_manager_v9.c:get_wave_state @ 6.12.117). The wave is in the
 * save area already.
 */
int sim_kfd_get_wave_state(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_queue_wave_state_args *args = data;
	struct kfd_context_save_area_header header = {};
	void __user *stack = u64_to_user_ptr(args->ctl_stack_address);
	struct sim_stack_entry stack_entry = {};
	struct sim_queue *q;
	u32 used = 0, size = 0;
	int ret = 0;

	mutex_lock(&p->lock);
	q = sim_queue_find(p, args->queue_id);
	if (!q) {
		ret = -EFAULT;
	} else {
		sim_run_lock(p);
		if (!p->evicted || q->type != SIM_QUEUE_COMPUTE)
			ret = -EINVAL;
		else if (q->stopped)
			used = sizeof(q->stack);
		stack_entry = q->stack;
		size = q->ctl_stack_size;
		mutex_unlock(&p->run_lock);
	}
	mutex_unlock(&p->lock);
	if (ret)
		return ret;
	args->ctl_stack_used_size = used;
	args->save_area_used_size = used ? sizeof(struct sim_wave) : 0;
	header.wave_state.control_stack_offset = size - used;
	header.wave_state.control_stack_size = used;
	header.wave_state.wave_state_offset = size + args->save_area_used_size;
	header.wave_state.wave_state_size = args->save_area_used_size;
	if (copy_to_user(stack, &header, sizeof(header.wave_state)) ||
	    copy_to_user(stack + size - used, &stack_entry, used))
		return -EFAULT;
	return 0;
}
