// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Hardware state of a queue in the CRIU blob: how much there is of it, and where its parts are. */
#include "criu/criu_queue.h"

/* Of an SDMA queue: v10_structs.h:v10_sdma_mqd and those of the other versions @ 6.12.117. */
static u32 sim_sdma_mqd_bytes(const struct sim_gpu *gpu)
{
	return gpu->gfx_target_version / 10000 == 10 ? 520 : 512;
}

/* kfd_device_queue_manager.c:mqd_size_from_queue_type @ 6.12.117. */
u32 sim_mqd_bytes(const struct sim_queue *q)
{
	return sim_is_sdma(q->type) ? sim_sdma_mqd_bytes(q->pdd->gpu) : SIM_MQD_BYTES;
}

/*
 * Kernels that save all XCCs multiply the size, also that of an SDMA queue, which has one MQD
 * (kfd_device_queue_manager.c:get_queue_checkpoint_info @ 7.3.4). First all MQDs are saved, then all control stacks.
 * Only gfx9 has these in kernel memory beside the MQD, for queues that have a save area
 * (kfd_mqd_manager_v9.c:get_checkpoint_info @ 6.12.117); later versions have them in that area.
 */
struct sim_mqd_sizes sim_mqd_sizes(const struct sim_queue *q)
{
	const struct sim_kernel *kernel = q->pdd->p->kernel;
	const struct sim_gpu *gpu = q->pdd->gpu;
	struct sim_mqd_sizes s = { .xccs = kernel->saves_every_xcc ? gpu->num_xcc : 1 };

	s.mqd = s.xccs * sim_mqd_bytes(q);
	if (!sim_is_sdma(q->type) && q->cwsr && gpu->gfx_target_version / 10000 == 9 && !kernel->loses_ctl_stack)
		s.ctl_stack = s.xccs * q->ctl_stack_size;
	return s;
}

/* The one entry of an XCC's control stack, at its end; NULL where the blob has none. */
static struct sim_stack_entry *sim_stack_entry_at(struct sim_mqd_sizes s, u8 *state, u32 xcc)
{
	u32 each = s.ctl_stack / s.xccs;

	if (each < sizeof(struct sim_stack_entry))
		return NULL;
	return (struct sim_stack_entry *)(state + s.mqd + (xcc + 1) * each - sizeof(struct sim_stack_entry));
}

/* Of an SDMA queue there is one MQD, the rest is zeros: kfd_mqd_manager_v9.c:checkpoint_mqd_sdma @ 7.3.4. */
void sim_state_save(const struct sim_queue *q, struct sim_mqd_sizes s, u8 *state)
{
	u32 i;

	for (i = 0; i < (sim_is_sdma(q->type) ? 1 : s.xccs); i++)
		sim_queue_save(q, (struct sim_mqd *)(state + i * (s.mqd / s.xccs)), sim_stack_entry_at(s, state, i));
}

/* state is zeros behind its end for as much as is read here. */
int sim_state_load(struct sim_queue *q, struct sim_mqd_sizes s, u8 *state)
{
	int ret = 0;
	u32 i;

	/* Backwards: what counts is the first one. */
	for (i = sim_is_sdma(q->type) ? 1 : s.xccs; i-- && !ret; )
		ret = sim_queue_load(q, (struct sim_mqd *)(state + i * (s.mqd / s.xccs)),
				     sim_stack_entry_at(s, state, i));
	/* The other XCCs know nothing of this queue. */
	if (!sim_is_sdma(q->type) && s.xccs != q->pdd->gpu->num_xcc)
		q->partial = true;
	return ret;
}
