// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Queues of a CHECKPOINT: a header, the MQDs, the control stacks. */
#include "criu/criu_queue.h"

static int cwsr_enable = 1;
module_param(cwsr_enable, int, 0644);
MODULE_PARM_DESC(cwsr_enable, "compute wave save and restore; 0: no queue can be checkpointed");

/* Bytes of all queues in the blob; *nr grows by their number. Needs p->lock. */
u64 sim_criu_queues_size(struct sim_process *p, u32 *nr)
{
	struct sim_mqd_sizes s;
	struct sim_queue *q;
	u64 size = 0;

	list_for_each_entry(q, &p->queues, link) {
		s = sim_mqd_sizes(q);
		size += sizeof(struct sim_criu_queue) + s.mqd + s.ctl_stack;
		(*nr)++;
	}
	return size;
}

/* Can the hardware state of p's queues be read at all? */
int sim_criu_queues_check(struct sim_process *p)
{
	struct sim_queue *q;

	list_for_each_entry(q, &p->queues, link) {
		if (!READ_ONCE(cwsr_enable))
			return -EINVAL;
		/* kfd_mqd_manager_v12.c:mqd_manager_init_v12 has no checkpoint_mqd. */
		if (q->pdd->gpu->gfx_target_version / 10000 > p->kernel->saves_gfx)
			return -EOPNOTSUPP;
	}
	return 0;
}

/* kfd_process_queue_manager.c:criu_checkpoint_queue @ 6.12.117. Returns what follows the queue. */
static u8 *sim_dump_queue(const struct sim_queue *q, u8 *at)
{
	struct sim_criu_queue *priv = (struct sim_criu_queue *)at;
	struct sim_mqd_sizes s = sim_mqd_sizes(q);

	priv->object_type = SIM_CRIU_QUEUE;
	priv->q_address = q->ring;
	priv->q_size = q->ring_size;
	priv->read_ptr_addr = q->rptr;
	priv->write_ptr_addr = q->wptr;
	priv->eop_ring_buffer_address = q->eop;
	priv->ctx_save_restore_area_address = q->cwsr;
	priv->gpu_id = q->pdd->user_gpu_id;
	priv->type = q->type;
	priv->format = q->format;
	priv->q_id = q->id;
	priv->priority = q->priority;
	priv->q_percent = q->percent;
	priv->doorbell_id = q->doorbell_id;
	priv->sdma_id = q->sdma_id;
	priv->eop_ring_buffer_size = q->eop_size;
	priv->ctx_save_restore_area_size = q->cwsr_size;
	priv->ctl_stack_size = s.ctl_stack;
	priv->mqd_size = s.mqd;
	sim_state_save(q, s, (u8 *)(priv + 1));
	return at + sizeof(*priv) + s.mqd + s.ctl_stack;
}

/* Those of a GPU after those of another, and of each the newest first (kfd_device_queue_manager.c:create_queue_cpsch @
 * 6.12.117). */
static u8 *sim_dump_queues_of(struct sim_pdd *pdd, u8 *at)
{
	struct sim_queue *q;

	list_for_each_entry_reverse(q, &pdd->p->queues, link)
		if (q->pdd == pdd)
			at = sim_dump_queue(q, at);
	return at;
}

u8 *sim_criu_dump_queues(struct sim_process *p, u8 *at)
{
	struct sim_pdd *pdd;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		at = sim_dump_queues_of(pdd, at);
	return at;
}
