// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AQL packets. Barriers are real; KERNEL_DISPATCH, AGENT_DISPATCH and vendor packets
 * complete at once without running anything (no shader is executed, see README.md).
 */
#include "kfdsim.h"

#define AQL_PACKET_BYTES	64
#define AQL_TYPE_INVALID	1
#define AQL_TYPE_BARRIER_AND	3
#define AQL_TYPE_BARRIER_OR	5

/* Offsets in amd_signal_t, the 64-byte signal of ROCr. */
#define SIGNAL_VALUE		8
#define SIGNAL_MAILBOX		16
#define SIGNAL_EVENT_ID		24
#define SIGNAL_START_TS		32
#define SIGNAL_END_TS		40

struct sim_aql_packet {
	u16 header;
	u16 reserved[3];
	u64 dep_signal[5];
	u64 reserved2;
	u64 completion_signal;
};

static_assert(sizeof(struct sim_aql_packet) == AQL_PACKET_BYTES);

static int sim_aql_complete(struct sim_pdd *pdd, u64 signal)
{
	u64 mailbox, now = sim_gpu_clock();
	u32 event;

	if (!signal)
		return 0;
	if (sim_vm_write64(pdd->vm, signal + SIGNAL_START_TS, now) ||
	    sim_vm_write64(pdd->vm, signal + SIGNAL_END_TS, now) ||
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

/* Returns 1 if the barrier may complete, 0 if not, -EFAULT with *fault set. */
static int sim_aql_barrier(struct sim_vm *vm, const struct sim_aql_packet *pkt, bool all,
			   u64 *fault)
{
	unsigned int i, nr = 0, zero = 0;
	u64 value;

	for (i = 0; i < ARRAY_SIZE(pkt->dep_signal); i++) {
		if (!pkt->dep_signal[i])
			continue;
		*fault = pkt->dep_signal[i] + SIGNAL_VALUE;
		if (sim_vm_read64(vm, *fault, &value))
			return -EFAULT;
		nr++;
		zero += !value;
	}
	return !nr || (all ? zero == nr : zero > 0);
}

/* Try one packet; true if one was completed. */
bool sim_aql_step(struct sim_process *p, struct sim_queue *q)
{
	struct sim_vm *vm = q->pdd->vm;
	struct sim_aql_packet pkt;
	u64 wptr, at, fault = 0;
	u32 header;
	u8 type;
	int ret;

	if (sim_vm_read64(vm, q->wptr, &wptr)) {
		sim_queue_fault(p, q, q->wptr, false);
		return false;
	}
	if ((s64)(wptr - q->pos) <= 0)
		return false;
	at = q->ring + q->pos * AQL_PACKET_BYTES % q->ring_size;
	/* The producer writes the header last, so it is read first. */
	if (sim_vm_read32(vm, at, &header)) {
		sim_queue_fault(p, q, at, false);
		return false;
	}
	type = header & 0xff;
	if (type == AQL_TYPE_INVALID)
		return false;
	if (sim_vm_read(vm, at, &pkt, sizeof(pkt))) {
		sim_queue_fault(p, q, at, false);
		return false;
	}
	if (type == AQL_TYPE_BARRIER_AND || type == AQL_TYPE_BARRIER_OR) {
		ret = sim_aql_barrier(vm, &pkt, type == AQL_TYPE_BARRIER_AND, &fault);
		if (ret < 0)
			sim_queue_fault(p, q, fault, false);
		if (ret <= 0)
			return false;
	}
	if (sim_vm_write16(vm, at, AQL_TYPE_INVALID)) {
		sim_queue_fault(p, q, at, true);
		return false;
	}
	q->pos++;
	q->published = q->pos;
	if (sim_vm_write64(vm, q->rptr, q->pos)) {
		sim_queue_fault(p, q, q->rptr, true);
		return false;
	}
	if (sim_aql_complete(q->pdd, pkt.completion_signal))
		sim_queue_fault(p, q, pkt.completion_signal, true);
	return true;
}
