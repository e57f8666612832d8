// SPDX-License-Identifier: GPL-2.0 OR MIT
/* AQL packets (HSA Platform System Architecture 1.2, 2.9): dispatches of micro-operations, barriers, signals. */
#include "sim.h"

#include "soc15_ih_clientid.h"

#define SIM_PACKET	64	/* bytes */

enum { SIM_AQL_INVALID = 1, SIM_AQL_DISPATCH = 2, SIM_AQL_AND = 3, SIM_AQL_OR = 5 };

/* amd_signal_t of ROCr: value, mailbox and event for the interrupt, start and end for the profiler. */
#define SIM_SIGNAL_VALUE	8
#define SIM_SIGNAL_MAILBOX	16
#define SIM_SIGNAL_EVENT	24
#define SIM_SIGNAL_START	32
#define SIM_SIGNAL_END		40

static int sim_user_read(struct sim_gpu *g, struct sim_queue *q, u64 va, void *to, u32 len)
{
	return sim_read(g, q->hub, q->vmid, va, to, len);
}

static int sim_user_write(struct sim_gpu *g, struct sim_queue *q, u64 va, const void *from, u32 len)
{
	return sim_write(g, q->hub, q->vmid, va, from, len);
}

/* The interrupt at the end of a packet wakes whoever waits for it. */
static int sim_signal_interrupt(struct sim_gpu *g, struct sim_queue *q, u64 signal)
{
	u64 mailbox, value;
	u32 event, data[4] = {};

	if (sim_user_read(g, q, signal + SIM_SIGNAL_MAILBOX, &mailbox, 8) ||
	    sim_user_read(g, q, signal + SIM_SIGNAL_EVENT, &event, 4))
		return -EFAULT;
	if (!mailbox)
		return 0;
	value = event;
	if (sim_user_write(g, q, mailbox, &value, 8))
		return -EFAULT;
	data[0] = event;
	sim_irq(g, q->hub, SOC15_IH_CLIENTID_GRBM_CP, 181, 0, q->vmid, data);
	return 0;
}

static int sim_signal(struct sim_gpu *g, struct sim_queue *q, u64 signal, u64 start)
{
	u64 value, end = sim_clock();

	if (!signal)
		return 0;
	if (sim_user_write(g, q, signal + SIM_SIGNAL_START, &start, 8) ||
	    sim_user_write(g, q, signal + SIM_SIGNAL_END, &end, 8) ||
	    sim_user_read(g, q, signal + SIM_SIGNAL_VALUE, &value, 8))
		return -EFAULT;
	value--;
	return sim_user_write(g, q, signal + SIM_SIGNAL_VALUE, &value, 8) ?: sim_signal_interrupt(g, q, signal);
}

/* Returns 0 when its signals allow it, -EAGAIN when they do not yet, -EFAULT at *va. */
static int sim_barrier(struct sim_gpu *g, struct sim_queue *q, const u64 *packet, bool all, u64 *va)
{
	int i, signals = 0, zero = 0;
	u64 value;

	for (i = 1; i < 6; i++) {
		if (!packet[i])
			continue;
		*va = packet[i] + SIM_SIGNAL_VALUE;
		if (sim_user_read(g, q, *va, &value, 8))
			return -EFAULT;
		signals++;
		zero += !value;
	}
	return !signals || (all ? signals == zero : zero) ? 0 : -EAGAIN;
}

static int sim_aql_packet(struct sim_gpu *g, struct sim_queue *q, const u64 *packet, u64 *va)
{
	switch (packet[0] & 0xff) {
	case SIM_AQL_INVALID: return -EAGAIN;
	case SIM_AQL_DISPATCH: return sim_microop(g, q, packet, va);
	case SIM_AQL_AND: return sim_barrier(g, q, packet, true, va);
	case SIM_AQL_OR: return sim_barrier(g, q, packet, false, va);
	default: return 0;
	}
}

/* The packet at `at` has ended: frees its slot and decrements its signal. */
static bool sim_aql_done(struct sim_gpu *g, struct sim_queue *q, u64 at, u64 signal, u64 start)
{
	u16 invalid = SIM_AQL_INVALID;

	memset(&q->wave, 0, sizeof(q->wave));
	q->ready_at = q->waits_since = 0;
	sim_user_write(g, q, at, &invalid, 2);
	q->rptr++;
	sim_user_write(g, q, q->rptr_va, &q->rptr, 8);
	if (sim_signal(g, q, signal, start))
		sim_queue_halt(g, q, signal, true);
	return true;
}

/* Runs the next packet or a step of it. Returns true when something was done. */
bool sim_run_aql(struct sim_gpu *g, struct sim_queue *q)
{
	u64 wptr, packet[SIM_PACKET / 8], va = 0, at, start;
	int r;

	if (!sim_queue_wptr(g, q, &wptr) || (s64)(wptr - q->rptr) <= 0)
		return false;
	at = q->ring + q->rptr * SIM_PACKET % q->size;
	if (sim_user_read(g, q, at, packet, sizeof(packet)) || (!q->wave.magic && sim_queue_faults(q))) {
		sim_queue_halt(g, q, at, false);
		return false;
	}
	start = sim_clock();
	r = sim_aql_packet(g, q, packet, &va);
	switch (r) {
	case 0:
		return sim_aql_done(g, q, at, packet[7], q->wave.magic ? q->wave.start : start);
	case -EINPROGRESS:
		if (!q->ready_at)
			return true;
		sim_wake_at(g, q->ready_at);
		return false;
	case -EAGAIN:
		sim_wake_at(g, sim_retry_at(&q->waits_since));
		return false;
	default:
		sim_queue_halt(g, q, va, true);
		return false;
	}
}
