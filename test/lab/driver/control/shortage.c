// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Rules that withhold resources while they exist: VRAM, as if others had it, and queues of an SDMA engine. RESUME
 * leaves work to a worker of the driver; a rule cannot delay that worker.
 */
#include "sim.h"

#include "control.h"
#include "faults.h"
#include "kfd_device_queue_manager.h"
#include "kfd_priv.h"

#define SIM_CHUNK	SZ_2M
#define SIM_CHUNKS	4096

static struct {
	struct amdgpu_bo *vram[SIM_CHUNKS];
	unsigned int chunks;
	DECLARE_BITMAP(sdma, KFD_MAX_SDMA_QUEUES);
} sim_taken[SIM_GPUS];

static void sim_give_vram_back(struct sim_gpu *g)
{
	while (sim_taken[g->index].chunks)
		amdgpu_bo_free_kernel(&sim_taken[g->index].vram[--sim_taken[g->index].chunks], NULL, NULL);
}

/* Takes free VRAM until others have at most limit bytes in total. Nothing is evicted for it. */
static int sim_take_vram(struct sim_gpu *g, u64 limit)
{
	struct ttm_resource_manager *man = &g->adev->mman.vram_mgr.manager;

	while (sim_taken[g->index].chunks < SIM_CHUNKS && g->adev->gmc.real_vram_size -
	       (u64)sim_taken[g->index].chunks * SIM_CHUNK > limit &&
	       ttm_resource_manager_usage(man) + SIM_CHUNK <= man->size) {
		int r = amdgpu_bo_create_kernel(g->adev, SIM_CHUNK, PAGE_SIZE, AMDGPU_GEM_DOMAIN_VRAM,
						&sim_taken[g->index].vram[sim_taken[g->index].chunks], NULL, NULL);

		if (r)
			return r == -ENOMEM ? 0 : r;
		sim_taken[g->index].chunks++;
	}
	return 0;
}

/* Takes the queues of engines that a rule names, and gives back all others. */
static void sim_take_sdma(struct sim_gpu *g, struct kfd_node *node)
{
	struct device_queue_manager *dqm = node->dqm;
	unsigned int engines = kfd_get_num_sdma_engines(node), id;
	unsigned long *taken = sim_taken[g->index].sdma;

	mutex_lock(&dqm->lock_hidden);
	bitmap_or(dqm->sdma_bitmap, dqm->sdma_bitmap, taken, KFD_MAX_SDMA_QUEUES);
	bitmap_zero(taken, KFD_MAX_SDMA_QUEUES);
	for (id = 0; id < engines * node->kfd->device_info.num_sdma_queues_per_engine; id++)
		if (sim_fault_refuses_sdma(node->id, id % engines) && test_and_clear_bit(id, dqm->sdma_bitmap))
			set_bit(id, taken);
	mutex_unlock(&dqm->lock_hidden);
}

const unsigned long sim_fault_kinds = ~GENMASK(SIM_FAULT_SVM_RANGE, SIM_FAULT_RESUME);

int sim_faults_changed(void)
{
	unsigned int i;

	for (i = 0; i < SIM_GPUS; i++) {
		struct sim_gpu *g = sim_gpu_at(i);
		struct kfd_node *node = g && g->adev->kfd.dev ? g->adev->kfd.dev->nodes[0] : NULL;
		u64 limit;
		int r;

		if (!node)
			continue;
		sim_take_sdma(g, node);
		limit = sim_fault_vram(node->id, g->adev->gmc.real_vram_size);
		sim_give_vram_back(g);
		r = limit < g->adev->gmc.real_vram_size ? sim_take_vram(g, limit) : 0;
		if (r)
			return r;
	}
	return 0;
}

/* The GPU is being removed, so everything of it is given back. */
void sim_shortage_end(struct amdgpu_device *adev)
{
	sim_give_vram_back(sim_gpu(adev));
}
