// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What becomes of a queue when it is unmapped, and how it comes back: engine state in the
 * MQD, the wave of a dispatch that was stopped in the middle in the control stack.
 */
#include "criu.h"
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
