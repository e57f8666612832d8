// SPDX-License-Identifier: GPL-2.0 OR MIT
/* gfx90a, MI200. A GPU is one die. */
#include "sim.h"

#include "chip.h"
#include "hdp_v4_0.h"
#include "kgd_kfd_interface.h"
#include "mmhub/mmhub_1_7_offset.h"
#include "nbio/nbio_7_4_offset.h"
#include "nbio_v7_4.h"
#include "sdma_v4_0.h"
#include "smuio_v13_0.h"
#include "soc15.h"
#include "soc15_common.h"

#define SIM_GFX90A_SDMA	5	/* 2 for any copy, 3 for XGMI */

/*
 * Blocks as in amdgpu_discovery.c:amdgpu_discovery_set_ip_blocks @ 6.12.117 for CHIP_ALDEBARAN. PSP, SMU, UMC and VCN
 * are left out.
 */
static int sim_gfx90a_blocks(struct amdgpu_device *adev)
{
	aldebaran_reg_base_init(adev);
	sim_sdma_engines(adev, SIM_GFX90A_SDMA, IP_VERSION(4, 4, 0));
	adev->gmc.num_umc = 4;
	adev->gfx.xcc_mask = 1;
	adev->ip_versions[MMHUB_HWIP][0] = IP_VERSION(9, 4, 2);
	adev->ip_versions[ATHUB_HWIP][0] = IP_VERSION(9, 4, 2);
	adev->ip_versions[OSSSYS_HWIP][0] = IP_VERSION(4, 4, 0);
	adev->ip_versions[HDP_HWIP][0] = IP_VERSION(4, 4, 0);
	adev->ip_versions[NBIO_HWIP][0] = IP_VERSION(7, 4, 4);
	adev->ip_versions[GC_HWIP][0] = IP_VERSION(9, 4, 2);
	if (sim_in_hive(sim_gpu(adev)->index))
		adev->ip_versions[XGMI_HWIP][0] = IP_VERSION(6, 1, 0);
	adev->smuio.funcs = &smuio_v13_0_funcs;
	adev->nbio.funcs = &nbio_v7_4_funcs;
	adev->nbio.hdp_flush_reg = &nbio_v7_4_hdp_flush_reg;
	adev->hdp.funcs = &hdp_v4_0_funcs;
	return 0;
}

static void sim_gfx90a_preset(struct amdgpu_device *adev, u32 vram_mb, u32 fb_top)
{
	sim_preset(adev, SOC15_REG_OFFSET(NBIO, 0, mmRCC_CONFIG_MEMSIZE), vram_mb);
	sim_preset(adev, SOC15_REG_OFFSET(MMHUB, 0, regMC_VM_FB_LOCATION_BASE), SIM_FB);
	sim_preset(adev, SOC15_REG_OFFSET(MMHUB, 0, regMC_VM_FB_LOCATION_TOP), fb_top);
}

extern const struct kfd2kgd_calls aldebaran_kfd2kgd;
extern struct kfd2kgd_calls sim_gfx90a_kfd2kgd;
struct kfd2kgd_calls sim_gfx90a_kfd2kgd;

const struct sim_chip sim_gfx90a = {
	.name = "gfx90a",
	.generation = &sim_gfx9,
	.asic = CHIP_ALDEBARAN,
	.calls = &sim_gfx90a_kfd2kgd,
	.drivers_calls = &aldebaran_kfd2kgd,
	.sdma = &sdma_v4_0_ip_block,
	.mec_firmware = 78,
	.shader_engines = 8,
	.waves_per_simd = 8,
	.gb_addr_config = 0x2a114042,
	.blocks = sim_gfx90a_blocks,
	.preset = sim_gfx90a_preset,
};
