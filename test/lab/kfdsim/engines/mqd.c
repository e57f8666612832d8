// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What becomes of a queue when it is unmapped, and how it comes back: engine state in the
 * MQD, the wave of a dispatch that was stopped in the middle in the control stack.
 */
#include <linux/uaccess.h>

#include "criu/criu.h"
#include "kfdsim.h"

/* Needs run_lock. A packet or step that only had to wait for its time is over. */
void sim_queue_preempt(struct sim_queue *q, u64 now)
{
	sim_wave_preempt(q, now);
	sim_queue_retire(q);
	q->ready_at = 0;
}

/* Write the state of an unmapped queue; both have been zeroed before. */
void sim_queue_save(const struct sim_queue *q, void *mqd, void *ctl_stack)
{
	struct sim_mqd *m = mqd;

	m->magic = SIM_MQD_MAGIC;
	m->halted = q->halted;
	m->pos = q->pos;
	m->progress = q->progress;
	m->ctl_stack_size = q->ctl_stack_size;
	/* A wave only ever started with a control stack that is large enough. */
	if (q->wave.magic) {
		m->wave_bytes = sizeof(q->wave);
		memcpy(ctl_stack, &q->wave, sizeof(q->wave));
	}
}

/*
 * The reverse, from what a blob has. -EINVAL if this is no state a queue could be in.
 */
int sim_queue_load(struct sim_queue *q, const struct sim_mqd *m, const struct sim_wave *wave)
{
	if (m->magic != SIM_MQD_MAGIC || m->ctl_stack_size > SIM_MAX_CTL_STACK)
		return -EINVAL;
	q->ctl_stack_size = m->ctl_stack_size;
	if (m->wave_bytes) {
		if (m->wave_bytes != sizeof(*wave) || q->ctl_stack_size < sizeof(*wave) ||
		    q->type != SIM_QUEUE_COMPUTE || !sim_wave_valid(wave))
			return -EINVAL;
		q->wave = *wave;
	}
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
 * to its end, behind a header at its beginning (kfd_mqd_manager_v9.c:get_wave_state @ 6.12.117). The save area is of no
 * use, a wave has nothing but its control stack.
 */
int sim_kfd_get_wave_state(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_queue_wave_state_args *args = data;
	struct kfd_context_save_area_header header = {};
	void __user *stack = u64_to_user_ptr(args->ctl_stack_address);
	struct sim_wave wave = {};
	struct sim_queue *q;
	u32 used, size = 0;
	int ret = 0;

	mutex_lock(&p->lock);
	q = sim_queue_find(p, args->queue_id);
	if (!q) {
		ret = -EFAULT;
	} else {
		sim_run_lock(p);
		if (!p->evicted || q->type != SIM_QUEUE_COMPUTE)
			ret = -EINVAL;
		else
			wave = q->wave;
		size = q->ctl_stack_size;
		mutex_unlock(&p->run_lock);
	}
	mutex_unlock(&p->lock);
	if (ret)
		return ret;
	used = wave.magic ? min_t(u32, sizeof(wave), size) : 0;
	args->ctl_stack_used_size = used;
	args->save_area_used_size = 0;
	header.wave_state.control_stack_offset = size - used;
	header.wave_state.control_stack_size = used;
	header.wave_state.wave_state_offset = size;
	if (copy_to_user(stack, &header, sizeof(header.wave_state)) ||
	    copy_to_user(stack + size - used, &wave, used))
		return -EFAULT;
	return 0;
}
