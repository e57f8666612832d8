// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The wave of a stopped dispatch goes to the save area in the process's own memory. The control stack, which is there
 * or behind the MQD, records it. A queue faults if only one of the two is restored.
 */
#include "sim.h"

#include <linux/crc32.h>

#include "chips/chip.h"

#define SIM_STACK_MAGIC	0x6b637473	/* "stck" */
#define SIM_STACK_AT	ALIGN(sizeof(struct v9_mqd), PAGE_SIZE)	/* where the control stack follows the MQD */

/* Record of a stopped wave at the lower end of the control stack, which grows downwards. */
struct sim_stack_entry {
	u32 magic, bytes;
	u32 checksum;		/* of the wave in the save area */
	u32 reserved[13];
};

static u32 sim_wave_checksum(const struct sim_wave *w)
{
	return crc32_le(~0, (const u8 *)w, sizeof(*w));
}

/* The areas of XCCs follow each other (kfd_mqd_manager_v9.c:init_mqd_v9_4_3 @ 6.12.117). */
static u64 sim_save_area(const struct sim_queue *q, u32 xcc)
{
	return q->save + xcc * q->save_size;
}

/* In the save area the wave state begins behind the control stack (kfd_mqd_manager_v9.c:get_wave_state @ 6.12.117). */
static u64 sim_wave_at(const struct sim_queue *q, u32 xcc)
{
	return sim_save_area(q, xcc) + q->stack;
}

static int sim_stack_read(struct sim_gpu *g, struct sim_queue *q, u32 xcc, u32 offset, struct sim_stack_entry *e)
{
	if (g->chip->generation->stack_in_save_area)
		return sim_read(g, q->hub, q->vmid, sim_save_area(q, xcc) + offset, e, sizeof(*e));
	return sim_mqd_read(g, q, xcc * q->stride + SIM_STACK_AT + offset, e, sizeof(*e));
}

static int sim_stack_write(struct sim_gpu *g, struct sim_queue *q, u32 xcc, u32 offset, const struct sim_stack_entry *e)
{
	if (g->chip->generation->stack_in_save_area)
		return sim_write(g, q->hub, q->vmid, sim_save_area(q, xcc) + offset, e, sizeof(*e));
	sim_mqd_write(g, q, xcc * q->stride + SIM_STACK_AT + offset, e, sizeof(*e));
	return 0;
}

static bool sim_stack_entry(struct sim_gpu *g, struct sim_queue *q, u32 xcc, u32 offset, struct sim_stack_entry *e)
{
	return q->stack >= sizeof(*e) && q->stack - offset == sizeof(*e) && !sim_stack_read(g, q, xcc, offset, e) &&
	       e->magic == SIM_STACK_MAGIC;
}

static void sim_wave_lost(struct sim_gpu *g, struct sim_queue *q, u32 xcc)
{
	pr_warn("simulated GPU %u: the save area at %llx does not have the wave that was stopped\n", g->index,
		sim_save_area(q, xcc));
	memset(&q->wave, 0, sizeof(q->wave));
	sim_queue_halt(g, q, sim_wave_at(q, xcc), false);
}

/*
 * Finds the stopped wave of an MQD by the offset of its control stack. The control stack is useless without the save
 * area.
 */
void sim_wave_load(struct sim_gpu *g, struct sim_queue *q, u32 offset)
{
	struct sim_stack_entry e;

	if (offset == q->stack)
		return;
	if (!sim_stack_entry(g, q, 0, offset, &e) || e.bytes != sizeof(q->wave) ||
	    sim_read(g, q->hub, q->vmid, sim_wave_at(q, 0), &q->wave, sizeof(q->wave)) ||
	    sim_wave_checksum(&q->wave) != e.checksum)
		sim_wave_lost(g, q, 0);
}

/* Data of another XCC must be of the same moment. */
void sim_wave_check(struct sim_gpu *g, struct sim_queue *q, u32 xcc, u32 offset)
{
	struct sim_stack_entry e;
	struct sim_wave w;

	if (!sim_stack_entry(g, q, xcc, offset, &e) ||
	    sim_read(g, q->hub, q->vmid, sim_wave_at(q, xcc), &w, sizeof(w)) || sim_wave_checksum(&w) != e.checksum)
		sim_wave_lost(g, q, xcc);
}

/* Stores the wave at its place and returns the control stack's offset. */
u32 sim_wave_save(struct sim_gpu *g, struct sim_queue *q, u32 xcc, u32 *wave_end)
{
	struct sim_stack_entry e = { SIM_STACK_MAGIC, sizeof(q->wave), sim_wave_checksum(&q->wave) };
	u32 offset = q->stack - sizeof(e);

	*wave_end = q->stack;
	if (!q->wave.magic || !q->save || q->stack < sizeof(e))
		return q->stack;
	if (sim_write(g, q->hub, q->vmid, sim_wave_at(q, xcc), &q->wave, sizeof(q->wave)) ||
	    sim_stack_write(g, q, xcc, offset, &e)) {
		sim_page_fault(g, q->hub, q->vmid, sim_wave_at(q, xcc), true);
		return q->stack;
	}
	*wave_end += sizeof(q->wave);
	return offset;
}
