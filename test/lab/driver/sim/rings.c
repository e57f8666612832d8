// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The kernel's rings on the SDMA engines. The driver's scheduler submits indirect buffers; they run one after the
 * other.
 */
#include "sim.h"

#include "amdgpu_sdma.h"
#include "control.h"
#include "faults.h"
#include "vega10_sdma_pkt_open.h"

/* Packets between two checks of anything else. */
#define SIM_BURST	64
#define SIM_IB_DWORDS	0xfffff

/* A faulting packet of an IB is skipped: noretry is the default, and gfx9 continues (gmc_v9_0.c @ 6.12.117). */
static int sim_passed_over(struct sim_stream *s, const u32 *dw, int r)
{
	u32 n = sim_packet_dwords(dw);

	if (r == -EFAULT)
		sim_page_fault(s->g, s->hub, s->vmid, s->fault, s->write);
	else
		pr_warn("simulated SDMA %u: packet %08x is not known\n", s->engine, dw[0]);
	return n;
}

/* Runs the next packet of the current IB. Returns true when something was done. */
static bool sim_ib_step(struct sim_ring *r)
{
	struct sim_stream *s = &r->ib;
	u32 dw[16] = {};
	int n;

	if (sim_read(s->g, s->hub, s->vmid, r->ib_va, dw, min_t(u64, r->ib_left * 4, sizeof(dw)))) {
		sim_page_fault(s->g, s->hub, s->vmid, r->ib_va, false);
		r->ib_left = 0;
		return true;
	}
	n = sim_packet(s, dw, r->ib_va, r->ib_left);
	if (n == -EINPROGRESS)
		return !r->hung;
	if (!n) {
		sim_wake_at(s->g, ktime_get_ns() + 100 * NSEC_PER_USEC);
		return false;
	}
	if (n < 0)
		n = sim_passed_over(s, dw, n) ?: r->ib_left;
	r->ib_va += n * 4;
	r->ib_left -= min_t(u64, n, r->ib_left);
	return true;
}

static void sim_ring_ib(struct sim_ring *r, const u32 *dw)
{
	r->ib = (struct sim_stream){ r->ring.g, r->ring.engine, 0, dw[0] >> 16 & 0xf, r->ring.hub };
	r->ib_va = ((u64)dw[2] << 32 | dw[1]) & ~31ULL;
	r->ib_left = dw[3] & SIM_IB_DWORDS;
	if (r->ib.vmid)
		r->hung = sim_fault_submission();
	atomic64_inc(&sim_count.cs_submitted);
}

static bool sim_ring_step(struct sim_gpu *g, u32 engine)
{
	struct amdgpu_ring *ring = &g->adev->sdma.instance[engine].ring;
	struct sim_ring *r = &g->ring[engine];
	u64 wptr = READ_ONCE(r->wptr), mask = ring->ring_size - 1;
	u32 dw[16], i;
	int n;

	if (r->hung || (!r->ib_left && r->rptr >= wptr) || sim_engine_busy(g, engine))
		return false;
	if (r->ib_left)
		return sim_ib_step(r);
	r->ring.g = g;
	r->ring.engine = engine;
	r->ring.hub = sim_engine_hub(g, engine);
	for (i = 0; i < ARRAY_SIZE(dw); i++)
		dw[i] = READ_ONCE(ring->ring[((r->rptr + i * 4) & mask) / 4]);
	if ((dw[0] & 0xff) == SDMA_OP_INDIRECT) {
		sim_ring_ib(r, dw);
		n = 6;
	} else {
		n = sim_packet(&r->ring, dw, ring->gpu_addr + (r->rptr & mask), (wptr - r->rptr) / 4);
	}
	if (n == -EINPROGRESS)
		return true;
	if (!n) {
		sim_wake_at(g, ktime_get_ns() + 100 * NSEC_PER_USEC);
		return false;
	}
	if (n < 0) {
		pr_warn("simulated ring %s at %llx: packet %08x (%d)\n", ring->name, r->rptr, dw[0], n);
		n = 1;
	}
	r->rptr += n * 4;
	WRITE_ONCE(*(u64 *)ring->rptr_cpu_addr, r->rptr);
	return true;
}

/* Serves every ring once. Returns true when one of them may have more to do. */
bool sim_rings_run(struct sim_gpu *g)
{
	bool more = false;
	u32 engine, n;

	for (engine = 0; engine < g->adev->sdma.num_instances; engine++) {
		for (n = 0; n < SIM_BURST && sim_ring_step(g, engine); n++)
			;
		more |= n == SIM_BURST;
	}
	return more;
}
