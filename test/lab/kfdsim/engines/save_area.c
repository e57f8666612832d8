// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The wave of a dispatch that is stopped. It goes to the save area, which is the process's own memory: a BO, or a range
 * of SVM. The control stack says that it is there; gfx9 has that in the kernel's memory beside the MQD, later versions
 * in the save area. Who brings the one back without the other has a queue that faults. As ../../driver/sim/wave.c.
 */
#include <linux/crc32.h>

#include "kfdsim.h"

#define SIM_STACK_MAGIC	0x6b637473	/* "stck" */

static_assert(sizeof(struct sim_stack_entry) == KFDSIM_CTL_STACK);

static u32 sim_wave_checksum(const struct sim_wave *w)
{
	return crc32_le(~0, (const u8 *)w, sizeof(*w));
}

/* An XCC's area follows that of the one before: kfd_mqd_manager_v9.c:init_mqd_v9_4_3 @ 6.12.117. */
static u64 sim_save_area(const struct sim_queue *q, u32 xcc)
{
	return q->cwsr + (u64)xcc * q->cwsr_size;
}

/* The wave's place, behind that of the control stack: kfd_mqd_manager_v9.c:get_wave_state @ 6.12.117. */
static u64 sim_wave_at(const struct sim_queue *q, u32 xcc)
{
	return sim_save_area(q, xcc) + q->ctl_stack_size;
}

/* Entries grow down from the end of the control stack. */
static u64 sim_stack_at(const struct sim_queue *q, u32 xcc)
{
	return sim_wave_at(q, xcc) - sizeof(struct sim_stack_entry);
}

static bool sim_stack_in_area(const struct sim_queue *q)
{
	return q->pdd->gpu->gfx_target_version / 10000 > 9;
}

static int sim_area_read(const struct sim_queue *q, u64 va, void *to, u32 len)
{
	return sim_vm_read(q->pdd->vm, va, to, len);
}

/* len is a multiple of 8. */
static int sim_area_write(const struct sim_queue *q, u64 va, const void *from, u32 len)
{
	const u64 *word = from;
	u32 i;

	for (i = 0; i < len / sizeof(*word); i++)
		if (sim_vm_write64(q->pdd->vm, va + i * sizeof(*word), word[i]))
			return -EFAULT;
	return 0;
}

static int sim_wave_write(const struct sim_queue *q)
{
	u32 xcc;

	for (xcc = 0; xcc < q->pdd->gpu->num_xcc; xcc++)
		if (sim_area_write(q, sim_wave_at(q, xcc), &q->wave, sizeof(q->wave)) ||
		    (sim_stack_in_area(q) && sim_area_write(q, sim_stack_at(q, xcc), &q->stack, sizeof(q->stack))))
			return -EFAULT;
	return 0;
}

/* The queue is unmapped. One without a save area keeps its wave: it was not stopped by this. Needs run_lock. */
void sim_wave_save(struct sim_queue *q)
{
	if (q->stopped || !q->wave.magic || !q->cwsr)
		return;
	q->stack = (struct sim_stack_entry){ SIM_STACK_MAGIC, sizeof(q->wave), sim_wave_checksum(&q->wave) };
	q->stopped = true;
	if (!sim_wave_write(q) || q->pdd->p->dead)
		return;
	q->halted = true;
	atomic64_inc(&sim_count.gpu_faults);
	pr_warn_ratelimited("queue %u: no save area at %#llx\n", q->id, sim_wave_at(q, 0));
}

/* What an XCC has of the wave, checked. -EFAULT if it is not that which was stopped. */
static int sim_wave_read(const struct sim_queue *q, u32 xcc, struct sim_wave *w)
{
	struct sim_stack_entry e = q->stack;

	if (sim_stack_in_area(q) && sim_area_read(q, sim_stack_at(q, xcc), &e, sizeof(e)))
		return -EFAULT;
	if (e.magic != SIM_STACK_MAGIC || e.bytes != sizeof(*w) || sim_area_read(q, sim_wave_at(q, xcc), w, sizeof(*w)))
		return -EFAULT;
	return sim_wave_checksum(w) == e.checksum && sim_wave_valid(w) ? 0 : -EFAULT;
}

/* The queue is mapped again: its wave goes on. Needs run_lock. */
void sim_wave_load(struct sim_process *p, struct sim_queue *q)
{
	struct sim_wave w;
	u32 xcc;

	if (!q->stopped || q->partial)
		return;
	q->stopped = false;
	for (xcc = q->pdd->gpu->num_xcc; xcc--; ) {
		if (!sim_wave_read(q, xcc, &w))
			continue;
		pr_warn_ratelimited("queue %u: the save area at %#llx does not have the wave that was stopped\n",
				    q->id, sim_save_area(q, xcc));
		memset(&q->wave, 0, sizeof(q->wave));
		sim_queue_fault(p, q, sim_wave_at(q, xcc), false);
		return;
	}
	q->wave = w;
}
