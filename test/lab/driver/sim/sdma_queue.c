// SPDX-License-Identifier: GPL-2.0 OR MIT
/* User queues of SDMA engines. */
#include "sim.h"

#include "chips/chip.h"

/* Registers of the engine for a copy that was stopped. It continues from there. */
int sim_sdma_load(struct sim_gpu *g, struct sim_queue *q)
{
	struct v9_sdma_mqd *m = (void *)&g->mqd;
	u32 place[2];
	int r = sim_mqd_read(g, q, 0, m, sizeof(*m)) ?:
		sim_mqd_read(g, q, g->chip->generation->sdma_place, place, sizeof(place));

	if (r)
		return r;
	q->engine = sim_first_engine(g, q->xcc) + place[0];
	if (q->engine >= g->adev->sdma.num_instances)
		return -EINVAL;
	q->hub = sim_engine_hub(g, q->engine);
	q->slot = place[1];
	q->ring = ((u64)m->sdmax_rlcx_rb_base_hi << 32 | m->sdmax_rlcx_rb_base) << 8;
	q->size = 4ULL << (m->sdmax_rlcx_rb_cntl >> 1 & 0x1f);
	q->rptr_va = (u64)m->sdmax_rlcx_rb_rptr_addr_hi << 32 | m->sdmax_rlcx_rb_rptr_addr_lo;
	q->rptr = (u64)m->sdmax_rlcx_rb_rptr_hi << 32 | m->sdmax_rlcx_rb_rptr;
	q->synced = true;
	q->stream = (struct sim_stream){ .g = g, .engine = q->engine, .ring_id = 2, .vmid = q->vmid, .hub = q->hub,
					  .flip = SIM_NEVER };
	q->stream.done = (u64)m->sdmax_rlcx_midcmd_data1 << 32 | m->sdmax_rlcx_midcmd_data0;
	q->stream.begun = q->stream.done;
	return 0;
}

void sim_sdma_save(struct sim_gpu *g, struct sim_queue *q)
{
	u32 at[2] = { lower_32_bits(q->rptr), upper_32_bits(q->rptr) };
	u32 done[2] = { lower_32_bits(q->stream.done), upper_32_bits(q->stream.done) };

	BUILD_BUG_ON(offsetof(struct v9_sdma_mqd, sdmax_rlcx_rb_rptr_hi) !=
		     offsetof(struct v9_sdma_mqd, sdmax_rlcx_rb_rptr) + 4);
	BUILD_BUG_ON(offsetof(struct v9_sdma_mqd, sdmax_rlcx_midcmd_data1) !=
		     offsetof(struct v9_sdma_mqd, sdmax_rlcx_midcmd_data0) + 4);
	sim_mqd_write(g, q, offsetof(struct v9_sdma_mqd, sdmax_rlcx_rb_rptr), at, 8);
	sim_mqd_write(g, q, offsetof(struct v9_sdma_mqd, sdmax_rlcx_midcmd_data0), done, 8);
}

/* Runs the next packet or a part of it. Returns true when something was done. */
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
