// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The TLBs. A translation is used until the driver asks to drop it, even after the page tables have changed. A
 * forgotten flush shows as contents of another page, or as a page that is missing.
 *
 * As on hardware, a flush is acknowledged when no access uses a dropped translation any more. The driver asks with a
 * spinlock held, so an access is short and cannot be preempted.
 */
#include "sim.h"

static u64 sim_tag(u32 vmid, u64 va)
{
	return (va >> PAGE_SHIFT) << 5 | vmid << 1 | 1;
}

static struct sim_tlb_entry *sim_tlb_entry(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va)
{
	u64 page = va >> PAGE_SHIFT;

	return &g->tlb[hub][(page ^ page >> 9 ^ vmid << 7) % SIM_TLB_ENTRIES];
}

bool sim_tlb_find(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, struct sim_page *page)
{
	struct sim_tlb_entry *e = sim_tlb_entry(g, hub, vmid, va);

	if (e->tag != sim_tag(vmid, va) || e->flushes != atomic_read(&g->flushes[hub][vmid]))
		return false;
	*page = e->page;
	return true;
}

void sim_tlb_fill(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, const struct sim_page *page)
{
	struct sim_tlb_entry *e = sim_tlb_entry(g, hub, vmid, va);

	e->tag = sim_tag(vmid, va);
	e->flushes = atomic_read(&g->flushes[hub][vmid]);
	e->page = *page;
}

/* Drops translations of these VMIDs, a bit each, and waits for the current access. */
void sim_tlb_flush(struct sim_gpu *g, enum sim_hub hub, u32 vmids)
{
	int vmid, now;

	for (vmid = 0; vmid < SIM_VMIDS; vmid++)
		if (vmids & BIT(vmid))
			atomic_inc(&g->flushes[hub][vmid]);
	smp_mb__after_atomic();
	now = atomic_read(&g->access);
	while ((now & 1) && atomic_read(&g->access) == now)
		cpu_relax();
}

/* Between these two calls a translation does not change. There is one access at a time, because g->lock is held. */
void sim_access_begin(struct sim_gpu *g)
{
	lockdep_assert_held(&g->lock);
	preempt_disable();
	atomic_inc(&g->access);
	smp_mb__after_atomic();
}

void sim_access_end(struct sim_gpu *g)
{
	smp_mb__before_atomic();
	atomic_inc(&g->access);
	preempt_enable();
}
