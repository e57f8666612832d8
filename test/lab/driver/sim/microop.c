// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Micro-operations, which run here instead of shaders. Programs give the arguments that microop.h describes. */
#include "sim.h"

#include "control.h"
#include "microop.h"
#include "rates.h"

#define SIM_WAVE_MAGIC	0x77646b73

/* Begins a dispatch and reads its arguments once. Returns 0 for a foreign one, which ends at once. */
static int sim_wave_begin(struct sim_gpu *g, struct sim_queue *q, const u64 *packet, u64 *va)
{
	struct kfdsim_microop_args args;
	struct kfdsim_microop op;

	*va = packet[4];
	if (!packet[4])
		return 0;
	if (sim_read(g, q->hub, q->vmid, packet[4], &op, sizeof(op)))
		return -EFAULT;
	if (op.magic != KFDSIM_MICROOP_MAGIC)
		return 0;
	*va = packet[5];
	if (op.version != KFDSIM_MICROOP_VERSION || op.op < KFDSIM_OP_FILL || op.op > KFDSIM_OP_SPIN ||
	    sim_read(g, q->hub, q->vmid, packet[5], &args, sizeof(args)) || args.step_us > KFDSIM_MAX_STEP_US ||
	    (op.op != KFDSIM_OP_SPIN && ((args.address | args.size) & 3)) ||
	    (op.op == KFDSIM_OP_SPIN && args.size > KFDSIM_MAX_SPIN_US))
		return -EFAULT;
	q->wave = (struct sim_wave){ SIM_WAVE_MAGIC, op.op, args.address, args.size, args.value, args.step_us, 0,
				     sim_clock() };
	q->ready_at = 0;
	return -EINPROGRESS;
}

/* It is taken off the hardware. Time off the hardware does not count. */
void sim_microop_stop(struct sim_queue *q)
{
	struct sim_wave *w = &q->wave;
	u64 now = ktime_get_ns();

	if (w->magic && w->op == KFDSIM_OP_SPIN && q->ready_at)
		w->progress = w->size - (q->ready_at > now ? min(w->size, div_u64(q->ready_at - now, NSEC_PER_USEC)) : 0);
}

/* The finished part is progress, us. */
static int sim_spin(struct sim_queue *q)
{
	struct sim_wave *w = &q->wave;
	u64 now = ktime_get_ns(), left = w->size - min(w->progress, w->size);

	if (q->ready_at) {
		w->progress = w->size;
		return 0;
	}
	if (!left)
		return 0;
	q->ready_at = now + left * NSEC_PER_USEC;
	return -EINPROGRESS;
}

static int sim_step(struct sim_gpu *g, struct sim_queue *q, u64 *va)
{
	struct sim_wave *w = &q->wave;
	u64 done = w->progress * KFDSIM_STEP_BYTES, left = min_t(u64, w->size - done, KFDSIM_STEP_BYTES);
	u32 words[128], i, n;

	for (*va = w->address + done; left; *va += n, left -= n) {
		n = min_t(u64, left, sizeof(words));
		if (w->op == KFDSIM_OP_INCREMENT && sim_read(g, q->hub, q->vmid, *va, words, n))
			return -EFAULT;
		for (i = 0; i < n / 4; i++)
			words[i] = w->op == KFDSIM_OP_INCREMENT ? words[i] + w->value : w->value;
		if (sim_write(g, q->hub, q->vmid, *va, words, n))
			return -EFAULT;
	}
	w->progress++;
	return 0;
}

/* Returns 0 when it has ended, -EINPROGRESS to be called again (at q->ready_at if that is not 0), -EFAULT at *va. */
int sim_microop(struct sim_gpu *g, struct sim_queue *q, const u64 *packet, u64 *va)
{
	struct sim_wave *w = &q->wave;
	int r;

	if (!w->magic) {
		r = sim_wave_begin(g, q, packet, va);
		if (r != -EINPROGRESS)
			return r;
	}
	if (q->ready_at > ktime_get_ns())
		return -EINPROGRESS;
	if (w->op == KFDSIM_OP_SPIN) {
		r = sim_spin(q);
	} else if (w->progress * KFDSIM_STEP_BYTES >= w->size) {
		r = 0;
	} else {
		r = sim_step(g, q, va) ?: -EINPROGRESS;
		q->ready_at = w->step_us ? ktime_get_ns() + sim_step_ns(w->step_us) : 0;
	}
	if (!r)
		atomic64_inc(&sim_count.dispatches);
	return r;
}
