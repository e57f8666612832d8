// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Which parts of a GPU work together. A GPU of one die has one XCC. The driver divides others into partitions, a KFD
 * node each; its mode tells the number of XCCs (aqua_vanjaram.c @ 6.12.117). Each die has two XCCs, their SDMA engines
 * and an MM hub.
 */
#include "sim.h"

#include "amdgpu_amdkfd.h"
#include "kfd_priv.h"

static_assert(SIM_GFX == AMDGPU_GFXHUB(0) && SIM_MM == AMDGPU_MMHUB0(0));

static bool sim_has_dies(struct sim_gpu *g)
{
	return g->adev->aid_mask;
}

/* XCCs of a partition. All of them run each of its queues. */
u32 sim_xccs(struct sim_gpu *g)
{
	return max(g->adev->gfx.num_xcc_per_xcp, 1u);
}

u32 sim_partitions(struct sim_gpu *g)
{
	return max(NUM_XCC(g->adev->gfx.xcc_mask) / sim_xccs(g), 1u);
}

/* KFD numbers a node's engines from 0 (aqua_vanjaram.c:__aqua_vanjaram_get_xcp_ip_info @ 6.12.117). */
u32 sim_first_engine(struct sim_gpu *g, u32 xcc)
{
	return xcc / sim_xccs(g) * DIV_ROUND_UP(g->adev->sdma.num_instances, sim_partitions(g));
}

/* An MM hub; on gfx10 the hub of shaders (sdma_v5_2.c:sdma_v5_2_sw_init @ 6.12.117). */
enum sim_hub sim_engine_hub(struct sim_gpu *g, u32 engine)
{
	return g->adev->sdma.instance[engine].ring.vm_hub;
}

enum sim_hub sim_xcc_mm(struct sim_gpu *g, u32 xcc)
{
	return SIM_MM + (sim_has_dies(g) ? xcc / 2 : 0);
}

/*
 * The node of an interrupt (kfd_device.c:kfd_setup_interrupt_bitmap, gmc_v9_0.c:gmc_v9_0_process_interrupt @ 6.12.117).
 */
u32 sim_ih_node(struct sim_gpu *g, enum sim_hub hub)
{
	if (hub >= SIM_MM)
		return 4 * (hub - SIM_MM);
	return sim_has_dies(g) ? 4 * (hub / 2) + hub % 2 + 1 : 0;
}

/* Two XCCs of a die that are in different partitions share its VMIDs (kfd_device.c:kgd2kfd_device_init @ 6.12.117). */
u32 sim_pasid(struct sim_gpu *g, enum sim_hub hub, u32 vmid)
{
	u32 xcc = hub < SIM_MM ? hub : 2 * (hub - SIM_MM);

	vmid %= SIM_VMIDS;
	if (hub < SIM_MM || g->pasid[xcc][vmid])
		return g->pasid[xcc][vmid];
	return g->pasid[xcc + 1][vmid];
}

/*
 * Hook of amdgpu_vm.c and amdgpu_vm_tlb_fence.c: does the work of the firmware for the KIQ. Without a KIQ the driver
 * knows one PASID for each VMID (gmc_v9_0.c:gmc_v9_0_flush_gpu_tlb_pasid @ 6.12.117). That is not enough where
 * partitions have the same VMIDs.
 */
int sim_flush_pasid(struct amdgpu_device *adev, uint16_t pasid, uint32_t type, bool all_hub, uint32_t inst);
int sim_flush_pasid(struct amdgpu_device *adev, uint16_t pasid, uint32_t type, bool all_hub, uint32_t inst)
{
	struct sim_gpu *g = sim_gpu(adev);
	u32 xcc, vmid;

	for (xcc = 0; g && sim_partitions(g) > 1 && xcc < SIM_XCCS; xcc++) {
		for (vmid = 1; vmid < SIM_VMIDS; vmid++) {
			if (g->pasid[xcc][vmid] != pasid)
				continue;
			sim_tlb_flush(g, SIM_GFX + xcc, BIT(vmid));
			sim_tlb_flush(g, sim_xcc_mm(g, xcc), BIT(vmid));
		}
	}
	return amdgpu_gmc_flush_gpu_tlb_pasid(adev, pasid, type, all_hub, inst);
}
