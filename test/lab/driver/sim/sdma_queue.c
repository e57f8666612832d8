// SPDX-License-Identifier: GPL-2.0 OR MIT
/* User queues of SDMA engines. */
#include "sim.h"

/* The next packet, or a part of it. True: it went on. */
bool sim_run_sdma(struct sim_gpu *g, struct sim_queue *q)
{
	u64 wptr, at, n;
	u32 dw[16] = {};
	int r;

	if (g->ring[q->engine].hung || !sim_queue_wptr(g, q, &wptr) || q->rptr >= wptr || sim_engine_busy(g, q->engine))
		return false;
	at = q->ring + q->rptr % q->size;
	n = min3(q->size - q->rptr % q->size, wptr - q->rptr, (u64)sizeof(dw));
	if (sim_read(g, q->hub, q->vmid, at, dw, n) || (!q->stream.begun && sim_queue_faults(q))) {
		sim_queue_halt(g, q, at, false);
		return false;
	}
	r = sim_packet(&q->stream, dw, at, (wptr - q->rptr) / 4);
	if (r == -EINPROGRESS)
		return true;
	if (!r) {
		sim_wake_at(g, sim_retry_at(&q->waits_since));
		return false;
	}
	if (r < 0) {
		if (r == -EINVAL)
			pr_warn("simulated SDMA %u: packet %08x of a user queue is not known\n", q->engine, dw[0]);
		sim_queue_halt(g, q, q->stream.fault, q->stream.write);
		return false;
	}
	q->waits_since = 0;
	q->rptr += r * 4;
	sim_write(g, q->hub, q->vmid, q->rptr_va, &q->rptr, 8);
	return true;
}
