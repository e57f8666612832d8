// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Queues in the CRIU blob: a header, the MQD, the control stack. Both are checked against the GPU's, in 7.3 otherwise
 * than
 * in 6.12, and the memory a queue is made of must be there.
 */
#include <linux/slab.h>

#include "criu/criu.h"
#include "kfdsim.h"

static int cwsr_enable = 1;
module_param(cwsr_enable, int, 0644);
MODULE_PARM_DESC(cwsr_enable, "compute wave save and restore; 0: no queue can be checkpointed");

#define SIM_MQD_BYTES		2048	/* compute, gfx9 to gfx11 */
#define SIM_MQD_WAVE		256	/* offset */

/* Of an SDMA queue: v10_structs.h:v10_sdma_mqd and those of the other versions @ 6.12.117. */
static u32 sim_sdma_mqd_bytes(const struct sim_gpu *gpu)
{
	return gpu->gfx_target_version / 10000 == 10 ? 520 : 512;
}

/* Bytes of hardware state of one queue in the blob. */
struct sim_mqd_sizes {
	u32 xccs, mqd, ctl_stack;
};

/* 6.12 knows of the first one only. */
static u32 sim_saved_xccs(const struct sim_queue *q)
{
	return !sim_is_sdma(q->type) && q->pdd->p->kernel >= SIM_LINUX_7_3 ?
	       q->pdd->gpu->num_xcc : 1;
}

/*
 * A compute queue has an MQD and a control stack on each XCC of its GPU; first all MQDs are
 * saved, then all control stacks. Only gfx9 has the control stack in kernel memory beside the
 * MQD, for queues that have a save area; later versions have it in that area.
 */
static struct sim_mqd_sizes sim_mqd_sizes(const struct sim_queue *q)
{
	const struct sim_gpu *gpu = q->pdd->gpu;
	struct sim_mqd_sizes s = { .xccs = 1, .mqd = sim_sdma_mqd_bytes(gpu) };

	if (sim_is_sdma(q->type))
		return s;
	s.xccs = sim_saved_xccs(q);
	s.mqd = s.xccs * SIM_MQD_BYTES;
	if (q->cwsr && gpu->gfx_target_version / 10000 == 9)
		s.ctl_stack = s.xccs * q->ctl_stack_size;
	return s;
}

/*
 * Where the control stack of an XCC begins: behind all MQDs, or where there is none in the blob
 * at an unused place in the MQD, as waves have to be somewhere.
 */
static u8 *sim_ctl_stack_at(struct sim_mqd_sizes s, u8 *mqds, u8 *ctl_stacks, u32 xcc)
{
	if (s.ctl_stack / s.xccs >= KFDSIM_CTL_STACK)
		return ctl_stacks + xcc * (s.ctl_stack / s.xccs);
	return mqds + xcc * (s.mqd / s.xccs) + SIM_MQD_WAVE;
}

static void sim_state_save(const struct sim_queue *q, struct sim_mqd_sizes s, u8 *state)
{
	u32 i;

	for (i = 0; i < s.xccs; i++)
		sim_queue_save(q, state + i * (s.mqd / s.xccs),
			       sim_ctl_stack_at(s, state, state + s.mqd, i));
}

/* state is zeros behind its end for as much as is read here. */
static int sim_state_load(struct sim_queue *q, struct sim_mqd_sizes s, u8 *mqds, u8 *ctl_stacks)
{
	int ret = 0;
	u32 i;

	/* Backwards: what counts is the first one. */
	for (i = s.xccs; i-- && !ret; )
		ret = sim_queue_load(q, (struct sim_mqd *)(mqds + i * (s.mqd / s.xccs)),
				     (struct sim_wave *)sim_ctl_stack_at(s, mqds, ctl_stacks, i));
	/* The other XCCs know nothing of this queue. */
	if (!sim_is_sdma(q->type) && s.xccs != q->pdd->gpu->num_xcc)
		q->partial = true;
	return ret;
}

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
		/* No kernel has the functions for gfx12 yet. */
		if (q->pdd->gpu->gfx_target_version / 10000 >= 12)
			return -EOPNOTSUPP;
	}
	return 0;
}

/* Those of a GPU after those of another, and of each the newest first (kfd_device_queue_manager.c:create_queue_cpsch @
 * 6.12.117). */
static u8 *sim_dump_queues_of(struct sim_pdd *pdd, u8 *at)
{
	struct sim_queue *q;

	list_for_each_entry_reverse(q, &pdd->p->queues, link) {
		if (q->pdd != pdd)
			continue;

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
		at += sizeof(*priv) + s.mqd + s.ctl_stack;
	}
	return at;
}

u8 *sim_criu_dump_queues(struct sim_process *p, u8 *at)
{
	struct sim_pdd *pdd;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		at = sim_dump_queues_of(pdd, at);
	return at;
}

static void sim_load_set(struct sim_queue *q, const struct sim_criu_queue *priv)
{
	q->id = priv->q_id;
	q->type = priv->type;
	q->format = priv->format;
	q->ring = priv->q_address;
	q->ring_size = priv->q_size;
	q->rptr = priv->read_ptr_addr;
	q->wptr = priv->write_ptr_addr;
	q->eop = priv->eop_ring_buffer_address;
	q->eop_size = priv->eop_ring_buffer_size;
	q->cwsr = priv->ctx_save_restore_area_address;
	q->cwsr_size = priv->ctx_save_restore_area_size;
	/* Each XCC's; sim_queue_load() has it from the MQD, also where none is in the blob. */
	q->ctl_stack_size = priv->ctl_stack_size / sim_saved_xccs(q);
	q->priority = priv->priority;
	q->percent = priv->q_percent;
	q->doorbell_id = priv->doorbell_id;
	q->sdma_id = priv->sdma_id;
}

static int sim_load_check(struct sim_queue *q, const struct sim_criu_queue *priv)
{
	struct sim_mqd_sizes s = sim_mqd_sizes(q);

	if (!sim_is_sdma(priv->type) && priv->type != SIM_QUEUE_COMPUTE)
		return -EINVAL;
	/* The engine needs it; the real driver programs whatever it is given. */
	if (priv->q_size && !is_power_of_2(priv->q_size))
		return -EINVAL;
	if (priv->mqd_size != s.mqd)
		return -EINVAL;
	if (q->pdd->p->kernel >= SIM_LINUX_7_3 &&
	    priv->ctl_stack_size > s.xccs * q->pdd->gpu->ctl_stack_bytes)
		return -EINVAL;
	/* No buffer of the write pointer is looked up on restore, and MES cannot do without. */
	if (q->pdd->gpu->gfx_target_version / 10000 >= 11)
		return -EINVAL;
	return 0;
}

/*
 * kfd_process_queue_manager.c:kfd_criu_restore_queue @ 6.12.117 takes the size of the control stack from the blob,
 * where
 * it is 0 from gfx10 on: no queue of these can be restored. 7.3 has it from the topology.
 */
static int sim_load_buffers(struct sim_queue *q, const struct sim_criu_queue *priv)
{
	u32 ctl_stack = q->ctl_stack_size;
	int ret;

	q->ctl_stack_size = q->pdd->p->kernel >= SIM_LINUX_7_3 ? q->pdd->gpu->ctl_stack_bytes :
			    priv->ctl_stack_size;
	ret = sim_queue_buffers_get(q);
	q->ctl_stack_size = ctl_stack;
	return ret;
}

/* MQDs and control stacks of q, len bytes at l->offset. */
static int sim_load_state(struct sim_load *l, struct sim_queue *q,
			  const struct sim_criu_queue *priv, u64 len)
{
	struct sim_mqd_sizes s;
	u8 *state;
	int ret;

	/* No MQD is longer than this, so none is read beyond the end. */
	state = kvzalloc(len + SIM_MAX_XCC * SIM_MQD_BYTES, GFP_KERNEL);
	if (!state)
		return -ENOMEM;
	ret = sim_load_read(l, state, len);
	q->pdd = sim_pdd_by_id(l->p, priv->gpu_id);
	if (!ret && !q->pdd)
		ret = -EINVAL;
	if (!ret) {
		sim_load_set(q, priv);
		ret = sim_load_check(q, priv);
	}
	if (!ret) {
		s = sim_mqd_sizes(q);
		s.ctl_stack = priv->ctl_stack_size;
		ret = sim_state_load(q, s, state, state + priv->mqd_size);
	}
	kvfree(state);
	return ret;
}

/* The queue at l->offset. Errors in the order of the real driver. */
int sim_criu_load_queue(struct sim_load *l)
{
	struct sim_criu_queue priv;
	struct sim_queue *q;
	u64 len;
	int ret = sim_load_read(l, &priv, sizeof(priv));

	if (ret)
		return ret;
	len = (u64)priv.mqd_size + priv.ctl_stack_size;
	if (len > l->args->priv_data_size - l->offset)
		return -EINVAL;
	/* What kmalloc() refuses. */
	if (len > KMALLOC_MAX_SIZE)
		return -ENOMEM;
	q = kzalloc(sizeof(*q), GFP_KERNEL);
	if (!q)
		return -ENOMEM;
	ret = sim_load_state(l, q, &priv, len);
	if (!ret)
		ret = sim_load_buffers(q, &priv);
	if (!ret) {
		ret = sim_queue_insert(l->p, q, true);
		if (ret)
			sim_queue_buffers_put(q);
	}
	if (ret)
		kfree(q);
	return ret;
}
