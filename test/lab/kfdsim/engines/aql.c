// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AQL packets. Barriers are real, a KERNEL_DISPATCH runs a micro-operation (microop.c).
 * Dispatches of anything else, AGENT_DISPATCH and vendor packets complete at once without
 * effect: no shader is executed, see README.md.
 */
#include "kfdsim.h"

#define AQL_PACKET_BYTES	64
#define AQL_TYPE_INVALID	1
#define AQL_TYPE_DISPATCH	2
#define AQL_TYPE_BARRIER_AND	3
#define AQL_TYPE_BARRIER_OR	5

/* Offsets in amd_signal_t, the 64-byte signal of ROCr. */
#define SIGNAL_VALUE		8
#define SIGNAL_MAILBOX		16
#define SIGNAL_EVENT_ID		24
#define SIGNAL_START_TS		32
#define SIGNAL_END_TS		40

static_assert(sizeof(struct sim_aql_packet) == AQL_PACKET_BYTES);

static int sim_aql_signal(struct sim_pdd *pdd, u64 signal, u64 start)
{
	u64 mailbox;
	u32 event;

	if (!signal)
		return 0;
	if (sim_vm_write64(pdd->vm, signal + SIGNAL_START_TS, start) ||
	    sim_vm_write64(pdd->vm, signal + SIGNAL_END_TS, sim_gpu_clock()) ||
	    sim_vm_add64(pdd->vm, signal + SIGNAL_VALUE, -1ULL) ||
	    sim_vm_read64(pdd->vm, signal + SIGNAL_MAILBOX, &mailbox) ||
	    sim_vm_read32(pdd->vm, signal + SIGNAL_EVENT_ID, &event))
		return -EFAULT;
	if (mailbox) {
		if (sim_vm_write64(pdd->vm, mailbox, event))
			return -EFAULT;
		sim_event_interrupt(pdd->p, event);
	}
	return 0;
}

/* 0 if the barrier may complete, -EAGAIN if not yet, -EFAULT at *fault. */
static int sim_aql_barrier(struct sim_vm *vm, const struct sim_aql_packet *pkt, bool all,
			   struct sim_gpu_fault *fault)
{
	unsigned int i, nr = 0, zero = 0;
	u64 value;

	for (i = 0; i < ARRAY_SIZE(pkt->dep_signal); i++) {
		if (!pkt->dep_signal[i])
			continue;
		*fault = (struct sim_gpu_fault){ .va = pkt->dep_signal[i] + SIGNAL_VALUE };
		if (sim_vm_read64(vm, fault->va, &value))
			return -EFAULT;
		nr++;
		zero += !value;
	}
	return !nr || (all ? zero == nr : zero > 0) ? 0 : -EAGAIN;
}

static int sim_aql_exec(struct sim_queue *q, const struct sim_aql_packet *pkt, u64 now,
			struct sim_gpu_fault *fault)
{
	switch (pkt->header & 0xff) {
	case AQL_TYPE_DISPATCH:
		return sim_dispatch_step(q, pkt, now, fault);
	case AQL_TYPE_BARRIER_AND:
		return sim_aql_barrier(q->pdd->vm, pkt, true, fault);
	case AQL_TYPE_BARRIER_OR:
		return sim_aql_barrier(q->pdd->vm, pkt, false, fault);
	default:
		return 0;
	}
}

static enum sim_step sim_aql_complete(struct sim_process *p, struct sim_queue *q, u64 at,
				      const struct sim_aql_packet *pkt)
{
	u64 start = sim_wave_end(q);

	if (sim_vm_write16(q->pdd->vm, at, AQL_TYPE_INVALID)) {
		sim_queue_fault(p, q, at, true);
		return SIM_STEP_IDLE;
	}
	q->pos++;
	q->published = q->pos;
	if (sim_vm_write64(q->pdd->vm, q->rptr, q->pos)) {
		sim_queue_fault(p, q, q->rptr, true);
		return SIM_STEP_IDLE;
	}
	if (sim_aql_signal(q->pdd, pkt->completion_signal, start))
		sim_queue_fault(p, q, pkt->completion_signal, true);
	return SIM_STEP_DONE;
}

/* One packet, or one step of a dispatch. Needs run_lock. */
enum sim_step sim_aql_step(struct sim_process *p, struct sim_queue *q, u64 now)
{
	struct sim_aql_packet pkt;
	enum sim_step step;
	struct sim_gpu_fault fault;
	u64 wptr, at;
	u32 header;

	if (!sim_queue_pending(p, q, now, &wptr, &step))
		return step;
	at = q->ring + q->pos * AQL_PACKET_BYTES % q->ring_size;
	/* The producer writes the header last, so it is read first. */
	if (sim_vm_read32(q->pdd->vm, at, &header)) {
		sim_queue_fault(p, q, at, false);
		return SIM_STEP_IDLE;
	}
	/* Reserved, but not written yet. */
	if ((header & 0xff) == AQL_TYPE_INVALID)
		return SIM_STEP_MEMORY;
	if (sim_vm_read(q->pdd->vm, at, &pkt, sizeof(pkt))) {
		sim_queue_fault(p, q, at, false);
		return SIM_STEP_IDLE;
	}
	switch (sim_aql_exec(q, &pkt, now, &fault)) {
	case 0:
		return sim_aql_complete(p, q, at, &pkt);
	case -EINPROGRESS:
		return SIM_STEP_DONE;
	case -EAGAIN:
		return SIM_STEP_MEMORY;
	case -EFAULT:
		sim_queue_fault(p, q, fault.va, fault.write);
		return SIM_STEP_IDLE;
	default:
		sim_queue_halt(p, q, "bad micro-operation, header", header);
		return SIM_STEP_IDLE;
	}
}
