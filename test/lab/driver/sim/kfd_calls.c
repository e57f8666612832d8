// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * KFD's calls into the hardware (kfd2kgd). Most are the driver's own for the chip and write registers. Calls for
 * queues, PASIDs and waves are ours.
 */
#include "sim.h"

#include "amdgpu_amdkfd.h"
#include "athub/athub_1_0_offset.h"
#include "athub/athub_1_0_sh_mask.h"
#include "chips/chip.h"
#include "kfd_priv.h"
#include "soc15.h"

/* Loads a queue without the hardware scheduler (sched_policy=2). KFD chooses its place. */
static int sim_load(struct sim_gpu *g, const struct sim_queue *like)
{
	struct sim_queue *q;
	int r = -ENOSPC;

	mutex_lock(&g->lock);
	q = sim_queue_free(g);
	if (q) {
		*q = *like;
		r = sim_queue_load(g, q);
	}
	mutex_unlock(&g->lock);
	sim_wake(g);
	return r;
}

static int sim_hqd_load(struct amdgpu_device *adev, void *mqd, uint32_t pipe, uint32_t queue, uint32_t __user *wptr,
			uint32_t wptr_shift, uint32_t wptr_mask, struct mm_struct *mm, uint32_t inst)
{
	struct sim_gpu *g = sim_gpu(adev);
	struct v9_mqd *m = mqd;

	if (inst % sim_xccs(g))
		return 0;
	return sim_load(g, &(struct sim_queue){ .xcc = inst, .engine = pipe, .slot = queue, .mqd = mqd,
						.vmid = m->cp_hqd_vmid & 15 });
}

static int sim_hqd_sdma_load(struct amdgpu_device *adev, void *mqd, uint32_t __user *wptr, struct mm_struct *mm)
{
	struct v9_sdma_mqd *m = mqd;

	return sim_load(sim_gpu(adev), &(struct sim_queue){ .sdma = true, .mqd = mqd, .wptr_va = (uintptr_t)wptr,
							     .vmid = m->sdmax_rlcx_rb_cntl >> 24 & 15 });
}

static void sim_destroy(struct sim_gpu *g, bool sdma, u32 xcc, u32 engine, u32 slot)
{
	struct sim_queue *q;

	mutex_lock(&g->lock);
	q = sim_queue_at(g, sdma, xcc, engine, slot);
	if (q)
		sim_queue_save(g, q);
	mutex_unlock(&g->lock);
}

static int sim_hqd_destroy(struct amdgpu_device *adev, void *mqd, enum kfd_preempt_type reset, unsigned int timeout,
			   uint32_t pipe, uint32_t queue, uint32_t inst)
{
	sim_destroy(sim_gpu(adev), false, inst, pipe, queue);
	return 0;
}

/* The engine of an SDMA queue, and its number there. */
static const u32 *sim_sdma_place(struct amdgpu_device *adev, const void *mqd)
{
	return mqd + sim_chip(adev)->generation->sdma_place;
}

static int sim_hqd_sdma_destroy(struct amdgpu_device *adev, void *mqd, unsigned int timeout)
{
	const u32 *place = sim_sdma_place(adev, mqd);

	sim_destroy(sim_gpu(adev), true, 0, place[0], place[1]);
	return 0;
}

static bool sim_hqd_is_occupied(struct amdgpu_device *adev, uint64_t address, uint32_t pipe, uint32_t queue,
				uint32_t inst)
{
	struct sim_gpu *g = sim_gpu(adev);
	struct sim_queue *q;
	bool is;

	mutex_lock(&g->lock);
	q = sim_queue_at(g, false, inst, pipe, queue);
	is = q && q->ring >> 8 == address >> 8;
	mutex_unlock(&g->lock);
	return is;
}

static bool sim_hqd_sdma_is_occupied(struct amdgpu_device *adev, void *mqd)
{
	struct sim_gpu *g = sim_gpu(adev);
	const u32 *place = sim_sdma_place(adev, mqd);
	bool is;

	mutex_lock(&g->lock);
	is = sim_queue_at(g, true, 0, place[0], place[1]);
	mutex_unlock(&g->lock);
	return is;
}

/*
 * The driver's own function waits for a register to change, and plain memory does not change. For gfx1030 it writes no
 * ATC register, because a KIQ flushes its TLBs (amdgpu_amdkfd_gfx_v10_3.c:set_pasid_vmid_mapping_v10_3 @ 6.12.117).
 * Without a KIQ, gmc_v10_0.c reads that register like gmc_v9_0.c.
 */
int sim_set_pasid(struct amdgpu_device *adev, u32 pasid, unsigned int vmid, uint32_t inst)
{
	u32 reg = SOC15_REG_OFFSET(ATHUB, 0, mmATC_VMID0_PASID_MAPPING) + vmid;

	sim_gpu(adev)->pasid[inst % SIM_XCCS][vmid % SIM_VMIDS] = pasid;
	writel(pasid ? pasid | ATC_VMID0_PASID_MAPPING__VALID_MASK : 0, adev->rmmio + reg * 4);
	return 0;
}

/*
 * Loads the queue that the hardware scheduler reads. Only the first XCC of a partition reads it; the driver loads it
 * into all.
 */
static int sim_hiq_load(struct amdgpu_device *adev, void *mqd, uint32_t pipe, uint32_t queue, uint32_t doorbell,
			uint32_t inst)
{
	struct sim_gpu *g = sim_gpu(adev);
	struct sim_scheduler *s = &g->scheduler[inst % SIM_XCCS];
	struct v9_mqd *m = mqd;

	if (inst % sim_xccs(g))
		return 0;
	mutex_lock(&g->lock);
	s->hiq = ((u64)m->cp_hqd_pq_base_hi << 32 | m->cp_hqd_pq_base_lo) << 8;
	s->hiq_size = 8ULL << (m->cp_hqd_pq_control & 0x3f);
	s->hiq_rptr_va = (u64)m->cp_hqd_pq_rptr_report_addr_hi << 32 | m->cp_hqd_pq_rptr_report_addr_lo;
	s->hiq_wptr_va = (u64)m->cp_hqd_pq_wptr_poll_addr_hi << 32 | m->cp_hqd_pq_wptr_poll_addr_lo;
	s->hiq_rptr = m->cp_hqd_pq_rptr;
	s->runlist = (struct sim_runlist){};
	mutex_unlock(&g->lock);
	return 0;
}

static int sim_init_interrupts(struct amdgpu_device *adev, uint32_t pipe, uint32_t inst)
{
	return 0;
}

static int sim_wave_control(struct amdgpu_device *adev, uint32_t index, uint32_t cmd, uint32_t inst)
{
	return 0;
}

static void sim_cu_occupancy(struct amdgpu_device *adev, struct kfd_cu_occupancy *cu, int *max, uint32_t inst)
{
	*max = 32;
}

/* Makes the table that a hook of kfd_device.c gives KFD for GPUs of this chip. */
void sim_kfd_calls(const struct sim_chip *chip)
{
	struct kfd2kgd_calls *c = chip->calls;

	*c = *chip->drivers_calls;
	c->set_pasid_vmid_mapping = sim_set_pasid;
	c->init_interrupts = sim_init_interrupts;
	c->hqd_load = sim_hqd_load;
	c->hiq_mqd_load = sim_hiq_load;
	c->hqd_sdma_load = sim_hqd_sdma_load;
	c->hqd_is_occupied = sim_hqd_is_occupied;
	c->hqd_sdma_is_occupied = sim_hqd_sdma_is_occupied;
	c->hqd_destroy = sim_hqd_destroy;
	c->hqd_sdma_destroy = sim_hqd_sdma_destroy;
	c->wave_control_execute = sim_wave_control;
	if (c->get_cu_occupancy)
		c->get_cu_occupancy = sim_cu_occupancy;
}
