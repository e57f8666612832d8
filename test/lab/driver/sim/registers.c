// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Registers are plain memory, except those of TLB flushes. Any request there drops translations. */
#include "sim.h"

struct amdgpu_vmhub *sim_hub(struct sim_gpu *g, enum sim_hub hub)
{
	return &g->adev->vmhub[hub];
}

u32 sim_register(struct amdgpu_device *adev, u32 reg)
{
	return readl(adev->rmmio + reg * 4);
}

/* Which of the 18 engines for invalidations a register belongs to, or -1. first is the register of engine 0. */
static int sim_flush_engine(const struct amdgpu_vmhub *hub, u32 first, u32 reg)
{
	u32 engine;

	if (!first || reg < first || (reg - first) % hub->eng_distance)
		return -1;
	engine = (reg - first) / hub->eng_distance;
	return engine < 18 ? engine : -1;
}

/*
 * The low half of VM_INVALIDATE_ENG0_REQ has a bit for each VMID (gmc_v9_0.c:gmc_v9_0_get_invalidate_req @ 6.12.117).
 */
static u32 sim_flush_requested(struct sim_gpu *g, enum sim_hub hub, int engine)
{
	const struct amdgpu_vmhub *h = sim_hub(g, hub);

	return sim_register(g->adev, h->vm_inv_eng0_req + h->eng_distance * engine) & 0xffff;
}

/* A register that a packet writes. */
void sim_set_register(struct amdgpu_device *adev, u32 reg, u32 value)
{
	struct sim_gpu *g = sim_gpu(adev);
	int hub, engine;

	if (reg * 4ULL >= adev->rmmio_size)
		return;
	writel(value, adev->rmmio + reg * 4);
	for (hub = 0; g && hub < SIM_HUBS; hub++) {
		engine = sim_flush_engine(sim_hub(g, hub), sim_hub(g, hub)->vm_inv_eng0_req, reg);
		if (engine >= 0)
			sim_tlb_flush(g, hub, sim_flush_requested(g, hub, engine));
	}
}

/*
 * Hook of gmc_v9_0.c: the driver has written a request and reads whether it is done. Semaphores of these engines are
 * always free.
 */
uint32_t sim_rreg(struct amdgpu_device *adev, uint32_t reg, uint32_t acc_flags);
uint32_t sim_rreg(struct amdgpu_device *adev, uint32_t reg, uint32_t acc_flags)
{
	struct sim_gpu *g = sim_gpu(adev);
	int hub, engine;

	for (hub = 0; g && hub < SIM_HUBS; hub++) {
		const struct amdgpu_vmhub *h = sim_hub(g, hub);

		engine = sim_flush_engine(h, h->vm_inv_eng0_ack, reg);
		if (engine >= 0) {
			u32 vmids = sim_flush_requested(g, hub, engine);

			sim_tlb_flush(g, hub, vmids);
			return vmids;
		}
		if (sim_flush_engine(h, h->vm_inv_eng0_sem, reg) >= 0)
			return 1;
	}
	return amdgpu_device_rreg(adev, reg, acc_flags);
}
