// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The hardware scheduler: the work of the MEC's firmware with KFD's HIQ (kfd_packet_manager_v9.c). Run lists map
 * processes to VMIDs and queues to the hardware. Unmapping takes them off. A query writes the fence that KFD waits for.
 * When there are more processes than VMIDs, they take turns.
 */
#include "sim.h"

#include "kfd_pm4_headers_ai.h"
#include "kfd_pm4_headers_aldebaran.h"
#include "kfd_pm4_opcodes.h"

#define SIM_TURN_NS	(20 * NSEC_PER_MSEC)
#define SIM_PASID_QUEUES 1	/* of UNMAP_QUEUES: queues of one process */

/* VMIDs of a KFD node. Two partitions of one XCC each share them (kfd_device.c:kgd2kfd_device_init @ 6.12.117). */
static u32 sim_kfd_vmids(struct sim_gpu *g)
{
	u32 vmids = SIM_VMIDS - g->adev->vm_manager.first_kfd_vmid;

	return sim_partitions(g) > 1 && sim_xccs(g) == 1 ? vmids / 2 : vmids;
}

static u32 sim_first_vmid(struct sim_gpu *g, u32 xcc)
{
	u32 vmids = sim_kfd_vmids(g);

	if (sim_partitions(g) == 1 || sim_xccs(g) > 1)
		return g->adev->vm_manager.first_kfd_vmid;
	return SIM_VMIDS - (xcc % 2 ? vmids : 2 * vmids);
}

static void sim_unmap(struct sim_gpu *g, u32 xcc, u32 pasid)
{
	struct sim_queue *q;

	for (q = g->queue; q < g->queue + SIM_QUEUES; q++)
		if (q->used && !q->mqd && q->xcc == xcc && (!pasid || g->pasid[xcc][q->vmid] == pasid))
			sim_queue_save(g, q);
}

/* The packet has two lengths. Members that are read here have the same place in both. */
static_assert(offsetof(struct pm4_mes_map_process, vm_context_page_table_base_addr_hi32) ==
	      offsetof(struct pm4_mes_map_process_aldebaran, vm_context_page_table_base_addr_hi32));

/* Sets the root of the page tables. The firmware drops TLB entries of the VMID's former process. */
static void sim_set_root(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u32 low, u32 high)
{
	const struct amdgpu_vmhub *h = sim_hub(g, hub);
	u32 reg = h->ctx_addr_distance * vmid;

	sim_set_register(g->adev, h->ctx0_ptb_addr_lo32 + reg, low);
	sim_set_register(g->adev, h->ctx0_ptb_addr_hi32 + reg, high);
	sim_tlb_flush(g, hub, BIT(vmid));
}

static void sim_map_process(struct sim_gpu *g, u32 first, const struct pm4_mes_map_process *p, u32 vmid)
{
	u32 low = p->vm_context_page_table_base_addr_lo32, high = p->vm_context_page_table_base_addr_hi32, xcc;

	for (xcc = first; xcc < first + sim_xccs(g); xcc++) {
		sim_set_pasid(g->adev, p->bitfields2.pasid, vmid, xcc);
		sim_set_root(g, SIM_GFX + xcc, vmid, low, high);
		sim_set_root(g, sim_xcc_mm(g, xcc), vmid, low, high);
	}
}

static void sim_map_queue(struct sim_gpu *g, u32 xcc, const struct pm4_mes_map_queues *p, u32 vmid)
{
	struct sim_queue *q = sim_queue_free(g);

	if (!q) {
		pr_warn("simulated GPU %u: more than %u queues\n", g->index, SIM_QUEUES);
		return;
	}
	q->vmid = vmid;
	q->xcc = xcc;
	q->mqd_va = (u64)p->mqd_addr_hi << 32 | p->mqd_addr_lo;
	q->sdma = p->bitfields2.extended_engine_sel || p->bitfields2.engine_sel;
	if (q->sdma)
		q->wptr_va = (u64)p->wptr_addr_hi << 32 | p->wptr_addr_lo;
	if (sim_queue_load(g, q))
		pr_warn("simulated GPU %u: the MQD at %llx makes no queue\n", g->index, q->mqd_va);
}

/* Length of a PM4 packet in dwords. 0x3fff stands for one dword. */
static u32 sim_pm4_dwords(u32 header)
{
	u32 count = header >> 16 & 0x3fff;

	return count == 0x3fff ? 1 : count + 2;
}

/* Gives a VMID to each process of the run list whose turn it is, and loads its queues. */
static void sim_runlist_map(struct sim_gpu *g, u32 xcc)
{
	struct sim_runlist *l = &g->scheduler[xcc].runlist;
	u32 vmid = 0, dw[32], n, at;

	l->processes = 0;
	for (at = 0; at < l->dwords; at += n) {
		u32 len = min_t(u32, l->dwords - at, ARRAY_SIZE(dw));

		memset(dw, 0, sizeof(dw));
		if (sim_read(g, SIM_GFX, 0, l->va + at * 4ULL, dw, len * 4))
			return;
		n = sim_pm4_dwords(dw[0]);
		switch (dw[0] >> 8 & 0xff) {
		case IT_MAP_PROCESS:
			vmid = l->processes - l->first;	/* wraps round when it is not its turn yet */
			vmid = vmid < sim_kfd_vmids(g) ? vmid + sim_first_vmid(g, xcc) : 0;
			l->processes++;
			if (vmid)
				sim_map_process(g, xcc, (void *)dw, vmid);
			break;
		case IT_MAP_QUEUES:
			if (vmid)
				sim_map_queue(g, xcc, (void *)dw, vmid);
			break;
		case IT_RUN_LIST:	/* back to the beginning: there are more processes than VMIDs */
			return;
		}
	}
}

/* When there are more processes than VMIDs, the next ones get them. */
static void sim_rotate(struct sim_gpu *g, u32 xcc)
{
	struct sim_runlist *l = &g->scheduler[xcc].runlist;

	if (l->processes <= sim_kfd_vmids(g))
		return;
	if (ktime_get_ns() >= l->next_turn) {
		sim_unmap(g, xcc, 0);
		l->first += sim_kfd_vmids(g);
		if (l->first >= l->processes)
			l->first = 0;
		sim_runlist_map(g, xcc);
		l->next_turn = ktime_get_ns() + SIM_TURN_NS;
	}
	sim_wake_at(g, l->next_turn);
}

static void sim_runlist(struct sim_gpu *g, u32 xcc, const u32 *dw)
{
	struct sim_runlist *l = &g->scheduler[xcc].runlist;

	sim_unmap(g, xcc, 0);
	*l = (struct sim_runlist){ (u64)dw[2] << 32 | (dw[1] & ~3u), dw[3] & 0xfffff };
	l->next_turn = ktime_get_ns() + SIM_TURN_NS;
	sim_runlist_map(g, xcc);
}

static void sim_query(struct sim_gpu *g, const u32 *dw)
{
	u64 fence = (u64)dw[4] << 32 | dw[3], data = (u64)dw[6] << 32 | dw[5];

	sim_write(g, SIM_GFX, 0, fence, &data, 8);
}

static void sim_hiq_packet(struct sim_gpu *g, u32 xcc, const u32 *dw)
{
	switch (dw[0] >> 8 & 0xff) {
	case IT_RUN_LIST:
		sim_runlist(g, xcc, dw);
		break;
	case IT_UNMAP_QUEUES:
		sim_unmap(g, xcc, (dw[1] >> 4 & 3) == SIM_PASID_QUEUES ? dw[2] & 0xffff : 0);
		g->scheduler[xcc].runlist.processes = 0;
		break;
	case IT_QUERY_STATUS:
		sim_query(g, dw);
		break;
	}
}

/* Runs the HIQ of the partition that this XCC leads. Returns true when it had a packet. */
static bool sim_hiq_run(struct sim_gpu *g, u32 xcc)
{
	struct sim_scheduler *s = &g->scheduler[xcc];
	u32 dw[32];
	u64 wptr, rptr = s->hiq_rptr;

	if (!s->hiq || sim_read(g, SIM_GFX, 0, s->hiq_wptr_va, &wptr, 8))
		return false;
	while (s->hiq_rptr < wptr) {
		u64 at = s->hiq_rptr * 4 % s->hiq_size;

		memset(dw, 0, sizeof(dw));
		if (sim_read(g, SIM_GFX, 0, s->hiq + at, dw,
			     4 * min3(wptr - s->hiq_rptr, (s->hiq_size - at) / 4, (u64)ARRAY_SIZE(dw))))
			return false;
		sim_hiq_packet(g, xcc, dw);
		s->hiq_rptr += sim_pm4_dwords(dw[0]);
		sim_write(g, SIM_GFX, 0, s->hiq_rptr_va, &s->hiq_rptr, 4);
	}
	sim_rotate(g, xcc);
	return s->hiq_rptr != rptr;
}

bool sim_scheduler_run(struct sim_gpu *g)
{
	bool more = false;
	u32 xcc;

	for (xcc = 0; xcc < SIM_XCCS; xcc++)
		more |= sim_hiq_run(g, xcc);
	return more;
}
