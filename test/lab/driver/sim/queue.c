// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Queues of processes on the hardware, each on all XCCs of a partition. They are loaded from their MQDs, and saved
 * there when they are taken off, as with CWSR. The first XCC does the work. Every other one also has an MQD, a control
 * stack and a save area. It stores the same in them, as if it had a part of the wave.
 */
#include "sim.h"

#include "chips/chip.h"
#include "faults.h"

#define SIM_BURST 64

/* An SDMA engine belongs to the GPU, whichever XCC uses it. */
struct sim_queue *sim_queue_at(struct sim_gpu *g, bool sdma, u32 xcc, u32 engine, u32 slot)
{
	struct sim_queue *q;

	for (q = g->queue; q < g->queue + SIM_QUEUES; q++)
		if (q->used && q->sdma == sdma && (sdma || q->xcc == xcc) && q->engine == engine && q->slot == slot)
			return q;
	return NULL;
}

struct sim_queue *sim_queue_free(struct sim_gpu *g)
{
	struct sim_queue *q;

	for (q = g->queue; q < g->queue + SIM_QUEUES; q++)
		if (!q->used) {
			memset(q, 0, sizeof(*q));
			return q;
		}
	return NULL;
}

/* Reads the MQD by its CPU address, or by the GPU address that the scheduler's firmware has. */
int sim_mqd_read(struct sim_gpu *g, struct sim_queue *q, u32 at, void *to, u32 len)
{
	if (!q->mqd)
		return sim_read(g, SIM_GFX, 0, q->mqd_va + at, to, len);
	memcpy(to, q->mqd + at, len);
	return 0;
}

void sim_mqd_write(struct sim_gpu *g, struct sim_queue *q, u32 at, const void *from, u32 len)
{
	if (q->mqd)
		memcpy(q->mqd + at, from, len);
	else if (sim_write(g, SIM_GFX, 0, q->mqd_va + at, from, len))
		pr_warn("simulated GPU %u: MQD at %llx is not mapped\n", g->index, q->mqd_va);
}

/* Another XCC's data must be of this queue and of the same moment. */
static void sim_xcc_load(struct sim_gpu *g, struct sim_queue *q, u32 xcc)
{
	struct v9_mqd *m = &g->mqd;

	if (sim_mqd_read(g, q, xcc * q->stride, m, sizeof(*m)) || m->cp_hqd_pq_rptr != (u32)q->rptr * 16 ||
	    ((u64)m->cp_hqd_pq_base_hi << 32 | m->cp_hqd_pq_base_lo) << 8 != q->ring) {
		pr_warn("simulated GPU %u: the MQD of XCC %u is not of the queue at %llx\n", g->index, q->xcc + xcc, q->ring);
		sim_queue_halt(g, q, q->ring, false);
		return;
	}
	if (q->wave.magic)
		sim_wave_check(g, q, xcc, m->cp_hqd_cntl_stack_offset);
}

static int sim_compute_load(struct sim_gpu *g, struct sim_queue *q)
{
	struct v9_mqd *m = &g->mqd;
	int r = sim_mqd_read(g, q, 0, m, sizeof(*m));
	u32 xcc;

	if (r)
		return r;
	q->hub = SIM_GFX + q->xcc;
	q->xccs = sim_xccs(g);
	q->stride = m->cp_mqd_stride_size;
	q->ring = ((u64)m->cp_hqd_pq_base_hi << 32 | m->cp_hqd_pq_base_lo) << 8;
	q->size = 8ULL << (m->cp_hqd_pq_control & 0x3f);
	q->aql = m->cp_hqd_pq_control & g->chip->generation->aql;
	q->rptr_va = (u64)m->cp_hqd_pq_rptr_report_addr_hi << 32 | m->cp_hqd_pq_rptr_report_addr_lo;
	q->wptr_va = (u64)m->cp_hqd_pq_wptr_poll_addr_hi << 32 | m->cp_hqd_pq_wptr_poll_addr_lo;
	q->rptr = m->cp_hqd_pq_rptr / 16;	/* packets, modulo 2^28: see sim_queue_wptr() */
	q->save = (u64)m->cp_hqd_ctx_save_base_addr_hi << 32 | m->cp_hqd_ctx_save_base_addr_lo;
	q->save_size = m->cp_hqd_ctx_save_size;
	q->stack = m->cp_hqd_cntl_stack_size;
	sim_wave_load(g, q, m->cp_hqd_cntl_stack_offset);
	for (xcc = 1; xcc < q->xccs && !q->halted; xcc++)
		sim_xcc_load(g, q, xcc);
	return 0;
}

static void sim_compute_save(struct sim_gpu *g, struct sim_queue *q)
{
	u32 rptr = q->rptr * 16, end, offset, xcc, at;

	sim_microop_stop(q);
	for (xcc = 0; xcc < q->xccs; xcc++) {
		at = xcc * q->stride;
		offset = sim_wave_save(g, q, xcc, &end);
		sim_mqd_write(g, q, at + offsetof(struct v9_mqd, cp_hqd_pq_rptr), &rptr, 4);
		sim_mqd_write(g, q, at + offsetof(struct v9_mqd, cp_hqd_cntl_stack_offset), &offset, 4);
		sim_mqd_write(g, q, at + offsetof(struct v9_mqd, cp_hqd_wg_state_offset), &end, 4);
	}
}

/* Loads a queue from its MQD onto the hardware. q->used tells whether that succeeded. */
int sim_queue_load(struct sim_gpu *g, struct sim_queue *q)
{
	int r = q->sdma ? sim_sdma_load(g, q) : sim_compute_load(g, q);

	q->used = !r;
	return r;
}

void sim_queue_save(struct sim_gpu *g, struct sim_queue *q)
{
	if (q->sdma)
		sim_sdma_save(g, q);
	else
		sim_compute_save(g, q);
	q->used = false;
}

/*
 * Reads the write pointer. AQL's read pointer gets back the bits for which the MQD has no room. Returns false when it
 * is not mapped.
 */
bool sim_queue_wptr(struct sim_gpu *g, struct sim_queue *q, u64 *wptr)
{
	if (sim_read(g, q->hub, q->vmid, q->wptr_va, wptr, 8)) {
		sim_queue_halt(g, q, q->wptr_va, false);
		return false;
	}
	if (!q->synced) {
		u64 behind = (*wptr - q->rptr) & 0xfffffff;

		if (behind <= q->size / 64)
			q->rptr = *wptr - behind;
		q->synced = true;
	}
	return true;
}

void sim_queue_halt(struct sim_gpu *g, struct sim_queue *q, u64 va, bool write)
{
	q->halted = true;
	sim_page_fault(g, q->hub, q->vmid, va, write);
}

/* Whether its next packet must fault. Checked once for each packet. */
bool sim_queue_faults(struct sim_queue *q)
{
	if (q->asked == q->rptr + 1)
		return false;
	q->asked = q->rptr + 1;
	return sim_fault_packet();
}

/* Serves every queue once. Returns true when one of them may have more to do. */
bool sim_queues_run(struct sim_gpu *g)
{
	struct sim_queue *q;
	bool more = false;
	int n;

	for (q = g->queue; q < g->queue + SIM_QUEUES; q++) {
		if (!(q->used && (q->sdma || q->aql)))
			continue;
		for (n = 0; n < SIM_BURST && q->used && !q->halted; n++)
			if (!(q->sdma ? sim_run_sdma(g, q) : sim_run_aql(g, q)))
				break;
		more |= n == SIM_BURST;
	}
	return more;
}
