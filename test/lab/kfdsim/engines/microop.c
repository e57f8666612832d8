// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * KERNEL_DISPATCH: micro-operations instead of shaders, see microop.h. The arguments are
 * read once, when a dispatch starts, as waves have theirs in registers; from then on all
 * there is to know is in the queue's struct sim_wave.
 */
#include "kfdsim.h"

static_assert(sizeof(struct sim_wave) == KFDSIM_CTL_STACK);

/* Steps of a memory operation. */
static u64 sim_wave_steps(const struct sim_wave *w)
{
	return DIV_ROUND_UP(w->size, KFDSIM_STEP_BYTES);
}

/* Is this the state of a dispatch that can be? It may come from a tampered blob. */
bool sim_wave_valid(const struct sim_wave *w)
{
	if (w->magic != SIM_WAVE_MAGIC || w->step_us > KFDSIM_MAX_STEP_US)
		return false;
	switch (w->op) {
	case KFDSIM_OP_FILL:
	case KFDSIM_OP_INCREMENT:
		return !((w->address | w->size) & 3) && w->size <= SIM_GPUVM_LIMIT &&
		       w->address <= SIM_GPUVM_LIMIT && w->progress <= sim_wave_steps(w);
	case KFDSIM_OP_SPIN:
		return w->size <= KFDSIM_MAX_SPIN_US && w->progress <= w->size;
	default:
		return false;
	}
}

/* 1: there is a wave to run; 0: no micro-operation; -EINVAL: not a valid one; -EFAULT. */
static int sim_wave_start(struct sim_queue *q, const struct sim_aql_packet *pkt,
			  struct sim_gpu_fault *fault)
{
	struct kfdsim_microop_args args;
	struct kfdsim_microop op;
	struct sim_wave w = { .magic = SIM_WAVE_MAGIC, .start = sim_gpu_clock() };
	struct sim_vm *vm = q->pdd->vm;

	if (!pkt->kernel_object || sim_vm_read(vm, pkt->kernel_object, &op, sizeof(op)) ||
	    op.magic != KFDSIM_MICROOP_MAGIC)
		return 0;
	*fault = (struct sim_gpu_fault){ .va = pkt->kernarg_address };
	if (sim_vm_read(vm, pkt->kernarg_address, &args, sizeof(args)))
		return -EFAULT;
	w.op = op.op;
	w.address = args.address;
	w.size = args.size;
	w.value = args.value;
	w.step_us = args.step_us;
	if (op.version != KFDSIM_MICROOP_VERSION || q->ctl_stack_size < sizeof(w) ||
	    !sim_wave_valid(&w))
		return -EINVAL;
	q->wave = w;
	return 1;
}

static int sim_wave_memory(struct sim_vm *vm, const struct sim_wave *w,
			   struct sim_gpu_fault *fault)
{
	u64 done = w->progress * KFDSIM_STEP_BYTES, va = w->address + done;
	u64 len = min_t(u64, w->size - done, KFDSIM_STEP_BYTES);

	fault->write = true;
	if (w->op == KFDSIM_OP_FILL)
		return sim_vm_fill32(vm, va, w->value, len, &fault->va);
	return sim_vm_increment32(vm, va, w->value, len, &fault->va);
}

/*
 * Go on with the dispatch at the head of q, whose ready_at has passed. 0: it is over;
 * -EINPROGRESS: not yet, q->ready_at says when to come again; -EFAULT: at *fault;
 * -EINVAL: it cannot be run.
 */
int sim_dispatch_step(struct sim_queue *q, const struct sim_aql_packet *pkt, u64 now,
		      struct sim_gpu_fault *fault)
{
	struct sim_wave *w = &q->wave;
	int ret;

	if (!w->magic) {
		ret = sim_wave_start(q, pkt, fault);
		if (ret <= 0)
			return ret;
	}
	if (w->op == KFDSIM_OP_SPIN) {
		if (q->spin_since)
			w->progress = w->size;
		if (w->progress == w->size)
			return 0;
		q->spin_since = now;
		q->ready_at = now + (w->size - w->progress) * NSEC_PER_USEC;
		return -EINPROGRESS;
	}
	if (w->progress == sim_wave_steps(w))
		return 0;
	ret = sim_wave_memory(q->pdd->vm, w, fault);
	if (ret)
		return ret;
	w->progress++;
	q->ready_at = now + sim_step_ns(w->step_us);
	return -EINPROGRESS;
}

/* The queue is unmapped: what has run of a spin has run, a step of memory is over early. */
void sim_wave_preempt(struct sim_queue *q, u64 now)
{
	struct sim_wave *w = &q->wave;

	if (q->spin_since)
		w->progress += min(w->size - w->progress, (now - q->spin_since) / NSEC_PER_USEC);
	q->spin_since = 0;
}

/* The packet at the head of q is complete. Returns when it began (GPU clock). */
u64 sim_wave_end(struct sim_queue *q)
{
	u64 start = sim_gpu_clock();

	if (q->wave.magic) {
		start = q->wave.start;
		atomic64_inc(&sim_count.dispatches);
	}
	memset(&q->wave, 0, sizeof(q->wave));
	q->spin_since = 0;
	return start;
}
