// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A queue of a RESTORE, as kfd_process_queue_manager.c:kfd_criu_restore_queue takes it. What it checks, and in which
 * order, differs from kernel to kernel.
 */
#include <linux/slab.h>

#include "criu/criu_queue.h"

/* One queue on its way out of the blob. */
struct sim_load_queue {
	struct sim_criu_queue priv;
	struct sim_queue *q;
	u8 *state;
	u64 len;			/* bytes of state */
};

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
	q->priority = priv->priority;
	q->percent = priv->q_percent;
	q->doorbell_id = priv->doorbell_id;
	q->sdma_id = priv->sdma_id;
}

/* XCCs of the device that a GPU is a partition of, or of the GPU itself. */
static u32 sim_device_xccs(const struct sim_gpu *gpu)
{
	return gpu->num_xcc * gpu->partitions;
}

/* Room that the kernel makes for the control stack of each XCC of a compute queue. */
static u32 sim_ctl_stack_room(const struct sim_queue *q, const struct sim_criu_queue *priv)
{
	const struct sim_kernel *kernel = q->pdd->p->kernel;

	if (sim_is_sdma(q->type))
		return 0;
	if (kernel->ctl_stack_of_topology)
		return q->pdd->gpu->ctl_stack_bytes;
	return kernel->ctl_stack_by_device ? priv->ctl_stack_size / sim_device_xccs(q->pdd->gpu) : priv->ctl_stack_size;
}

/* What is looked at before the state: -EINVAL. */
static int sim_load_check(const struct sim_queue *q, const struct sim_criu_queue *priv)
{
	const struct sim_kernel *kernel = q->pdd->p->kernel;

	if (!sim_is_sdma(priv->type) && priv->type != SIM_QUEUE_COMPUTE)
		return -EINVAL;
	/* That of one MQD, also where CHECKPOINT has saved several. */
	if (kernel->checks_mqd_size && priv->mqd_size != sim_mqd_bytes(q))
		return -EINVAL;
	if (kernel->ctl_stack_of_topology &&
	    priv->ctl_stack_size > (u64)sim_ctl_stack_room(q, priv) * q->pdd->gpu->num_xcc)
		return -EINVAL;
	/* The engine needs it; the real driver programs whatever it is given. */
	return priv->q_size && !is_power_of_2(priv->q_size) ? -EINVAL : 0;
}

/*
 * Would the kernel read or write past its memory? It would read past the end of a state that is shorter than an MQD,
 * and write a control stack that is longer than the room for it; so does the hardware, when it stops the queue.
 */
static bool sim_load_overruns(const struct sim_queue *q, const struct sim_criu_queue *priv)
{
	u32 xccs = q->pdd->p->kernel->saves_every_xcc ? q->pdd->gpu->num_xcc : 1;
	u32 room = PAGE_ALIGN(sim_ctl_stack_room(q, priv));
	bool kernel_memory = !sim_is_sdma(q->type) && q->cwsr && q->pdd->gpu->gfx_target_version / 10000 == 9;

	if (priv->mqd_size + priv->ctl_stack_size < sim_mqd_bytes(q))
		return true;
	return kernel_memory && (priv->ctl_stack_size / xccs > room || q->ctl_stack_size > room);
}

/*
 * Buffers are taken from the mappings by some kernels; where they are, the control stack's size is the blob's, which
 * says 0 from gfx10 on, and must be the topology's: kfd_queue.c:kfd_queue_acquire_buffers @ 6.12.117.
 */
static int sim_load_buffers(struct sim_queue *q, const struct sim_criu_queue *priv)
{
	u32 ctl_stack = q->ctl_stack_size;
	int ret;

	if (!q->pdd->p->kernel->restore_acquires)
		return 0;
	q->ctl_stack_size = priv->ctl_stack_size;
	ret = sim_queue_buffers_get(q);
	q->ctl_stack_size = ctl_stack;
	return ret;
}

/*
 * MES wants the write pointer's BO. 7.2 and 7.3 say so (kfd_process_queue_manager.c:init_user_queue @ 7.3.4); 6.12.107
 * dereferences NULL there, and 6.1.192 calls a function that kfd_mqd_manager_v11.c:mqd_manager_init_v11 does not have.
 */
static int sim_load_mes(struct sim_queue *q)
{
	if (q->pdd->gpu->gfx_target_version / 10000 < 11 || q->buffers[SIM_BUFFER_WPTR])
		return 0;
	if (!q->pdd->p->kernel->refuses_mes) {
		pr_warn_ratelimited("RESTORE of a queue of gfx11 or later: this crashes a real kernel\n");
		atomic64_inc(&sim_count.mes_restores);
	}
	return -EINVAL;
}

/* The queue itself, of its state. -EINVAL if no engine was ever in it. */
static int sim_load_state(struct sim_load_queue *lq)
{
	struct sim_mqd_sizes s = sim_mqd_sizes(lq->q);
	int ret;

	s.mqd = lq->priv.mqd_size;
	s.ctl_stack = lq->priv.ctl_stack_size;
	ret = sim_state_load(lq->q, s, lq->state);
	if (!ret && sim_load_overruns(lq->q, &lq->priv)) {
		pr_warn_ratelimited("RESTORE of queue %u: a real kernel or GPU writes past its memory\n", lq->q->id);
		atomic64_inc(&sim_count.blob_overruns);
	}
	return ret;
}

/* The state, lq->len bytes at l->offset. */
static int sim_load_read_state(struct sim_load *l, struct sim_load_queue *lq)
{
	lq->len = (u64)lq->priv.mqd_size + lq->priv.ctl_stack_size;
	if (lq->len > l->args->priv_data_size - l->offset)
		return -EINVAL;
	/* What kmalloc() refuses. */
	if (lq->len > KMALLOC_MAX_SIZE)
		return -ENOMEM;
	/* No MQD is longer than this, so none is read beyond the end. */
	lq->state = kvzalloc(lq->len + SIM_MAX_XCC * SIM_MQD_BYTES, GFP_KERNEL);
	return lq->state ? sim_load_read(l, lq->state, lq->len) : -ENOMEM;
}

static int sim_load_make(struct sim_load *l, struct sim_load_queue *lq)
{
	int ret = sim_load_read_state(l, lq);

	if (!ret)
		ret = sim_load_state(lq);
	if (!ret)
		ret = sim_load_buffers(lq->q, &lq->priv);
	if (ret)
		return ret;
	ret = sim_load_mes(lq->q);
	if (!ret)
		ret = sim_queue_insert(l->p, lq->q, true);
	if (ret)
		sim_queue_buffers_put(lq->q);
	return ret;
}

/* The queue at l->offset. Errors in the order of the real driver. */
int sim_criu_load_queue(struct sim_load *l)
{
	struct sim_load_queue lq = {};
	int ret = sim_load_read(l, &lq.priv, sizeof(lq.priv));

	if (ret)
		return ret;
	lq.q = kzalloc(sizeof(*lq.q), GFP_KERNEL);
	if (!lq.q)
		return -ENOMEM;
	lq.q->pdd = sim_pdd_by_id(l->p, lq.priv.gpu_id);
	if (lq.q->pdd) {
		sim_load_set(lq.q, &lq.priv);
		ret = sim_load_check(lq.q, &lq.priv) ?: sim_load_make(l, &lq);
	} else {
		ret = -EINVAL;
	}
	kvfree(lq.state);
	if (ret)
		kfree(lq.q);
	return ret;
}
