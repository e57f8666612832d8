// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What a queue has of its GPU: a doorbell, and for SDMA one of the queues of an engine. Those are
 * numbered apart for engines for any copy and for XGMI: engine + engines of the kind * queue.
 */
#include "kfdsim.h"

/* SDMA doorbells are a fixed function of the engine and queue, in pairs 512 apart. */
#define SIM_SDMA_DOORBELL_BASE	256
#define SIM_DOORBELL_MIRROR	512
/* Of one engine: amdgpu_doorbell_mgr.c and vega20_reg_init.c:vega20_doorbell_index_init @ 6.12.117; gfx942 and gfx10
 * have as many. */
#define SIM_SDMA_DOORBELLS	10

/* The engines of one kind. */
struct sim_engines {
	u32 first, nr;			/* among all engines of the GPU */
	unsigned long *used;		/* queues of them */
};

bool sim_is_sdma(u32 type)
{
	return type == SIM_QUEUE_SDMA || type == SIM_QUEUE_SDMA_XGMI;
}

static struct sim_engines sim_engines_of(const struct sim_queue *q)
{
	struct sim_gpu *gpu = q->pdd->gpu;

	if (q->type == SIM_QUEUE_SDMA_XGMI)
		return (struct sim_engines){ gpu->num_sdma, gpu->num_xgmi, gpu->xgmi_used };
	return (struct sim_engines){ 0, gpu->num_sdma, gpu->sdma_used };
}

/* The engine of an SDMA queue, among all of its GPU. */
u32 sim_queue_engine(const struct sim_queue *q)
{
	struct sim_engines e = sim_engines_of(q);

	return e.first + q->sdma_id % e.nr;
}

/* A rule of debugfs wants no queue there. */
static bool sim_sdma_refused(struct sim_queue *q, const struct sim_engines *e, u32 id)
{
	return sim_fault_refuses_sdma(q->pdd->gpu->gpu_id, e->first + id % e->nr);
}

/* Its old number. -ENOMEM: all are in use; -EINVAL: there is none like this; -EBUSY: in use. */
static int sim_sdma_restore(struct sim_queue *q)
{
	struct sim_engines e = sim_engines_of(q);
	u32 nr = e.nr * SIM_SDMA_QUEUES;

	if (bitmap_full(e.used, nr))
		return -ENOMEM;
	if (q->sdma_id >= nr)
		return -EINVAL;
	return sim_sdma_refused(q, &e, q->sdma_id) || test_and_set_bit(q->sdma_id, e.used) ?
	       -EBUSY : 0;
}

/*
 * Any that is free, or one of the engine in q->sdma_id, which decides about the kind. -ENOMEM: none is, or none that
 * rules allow.
 */
static int sim_sdma_new(struct sim_queue *q)
{
	u32 engine = q->sdma_id, id = 0, step = 1, nr;
	struct sim_engines e;

	if (engine != U32_MAX && engine >= q->pdd->gpu->num_sdma)
		q->type = SIM_QUEUE_SDMA_XGMI;
	e = sim_engines_of(q);
	nr = e.nr * SIM_SDMA_QUEUES;
	if (engine != U32_MAX) {
		id = engine - e.first;
		step = e.nr;
	}
	for (; id < nr; id += step) {
		if (!sim_sdma_refused(q, &e, id) && !test_and_set_bit(id, e.used)) {
			q->sdma_id = id;
			return 0;
		}
	}
	return -ENOMEM;
}

/* Engines of partitions are numbered one behind the other: kfd_device_queue_manager.c:allocate_doorbell @ 7.3.4. */
static u32 sim_sdma_doorbell(const struct sim_queue *q)
{
	u32 queue = q->sdma_id / sim_engines_of(q).nr;
	u32 engine = q->pdd->gpu->partition * sim_num_engines(q->pdd->gpu) + sim_queue_engine(q);

	return SIM_SDMA_DOORBELL_BASE + engine * SIM_SDMA_DOORBELLS + (queue & 1) * SIM_DOORBELL_MIRROR + (queue >> 1);
}

static bool sim_is_sdma_doorbell(struct sim_gpu *gpu, u32 id)
{
	u32 base = id % SIM_DOORBELL_MIRROR;

	return base >= SIM_SDMA_DOORBELL_BASE &&
	       base < SIM_SDMA_DOORBELL_BASE + gpu->partitions * sim_num_engines(gpu) * SIM_SDMA_DOORBELLS;
}

static int sim_doorbell_take(struct sim_queue *q, bool restore)
{
	struct sim_pdd *pdd = q->pdd;
	u32 id;

	if (sim_is_sdma(q->type)) {
		id = sim_sdma_doorbell(q);
		if (restore && q->doorbell_id != id)
			return -EINVAL;
		q->doorbell_id = id;
		return 0;
	}
	if (restore) {
		if (q->doorbell_id >= SIM_NUM_DOORBELLS ||
		    sim_is_sdma_doorbell(pdd->gpu, q->doorbell_id) ||
		    test_and_set_bit(q->doorbell_id, pdd->doorbell_used))
			return -EINVAL;
		return 0;
	}
	for (id = 0; id < SIM_NUM_DOORBELLS; id++) {
		if (!sim_is_sdma_doorbell(pdd->gpu, id) &&
		    !test_and_set_bit(id, pdd->doorbell_used)) {
			q->doorbell_id = id;
			return 0;
		}
	}
	return -EBUSY;
}

static void sim_sdma_release(struct sim_queue *q)
{
	struct sim_gpu *gpu = q->pdd->gpu;

	spin_lock(&gpu->sdma_lock);
	clear_bit(q->sdma_id, sim_engines_of(q).used);
	spin_unlock(&gpu->sdma_lock);
}

/*
 * A place for q on its GPU: on restore that in sdma_id and doorbell_id, else a new one, for SDMA on
 * the engine in sdma_id unless that is U32_MAX.
 */
int sim_queue_hw_take(struct sim_queue *q, bool restore)
{
	struct sim_gpu *gpu = q->pdd->gpu;
	int ret = 0;

	if (sim_is_sdma(q->type)) {
		spin_lock(&gpu->sdma_lock);
		ret = restore ? sim_sdma_restore(q) : sim_sdma_new(q);
		spin_unlock(&gpu->sdma_lock);
	} else {
		q->sdma_id = 0;
	}
	if (ret)
		return ret;
	ret = sim_doorbell_take(q, restore);
	if (ret && sim_is_sdma(q->type))
		sim_sdma_release(q);
	return ret;
}

void sim_queue_hw_release(struct sim_queue *q)
{
	if (sim_is_sdma(q->type))
		sim_sdma_release(q);
	else
		clear_bit(q->doorbell_id, q->pdd->doorbell_used);
}
