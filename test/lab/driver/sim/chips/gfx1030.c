// SPDX-License-Identifier: GPL-2.0 OR MIT
/* gfx1030, Navi 21. SDMA engines translate like shaders. KFD's VMIDs are the upper eight. */
#include "sim.h"

#include "chip.h"
#include "gc/gc_10_3_0_offset.h"
#include "hdp_v5_0.h"
#include "kgd_kfd_interface.h"
#include "nbio/nbio_2_3_offset.h"
#include "nbio_v2_3.h"
#include "sdma_v5_2.h"
#include "sienna_cichlid_ip_offset.h"
#include "smuio_v11_0_6.h"
#include "soc15_common.h"
#include "soc15_ih_clientid.h"

#define SIM_GFX1030_SDMA	4

/* Register addresses come from its discovery table; the driver has them in a header, too. */
static void sim_gfx1030_registers(struct amdgpu_device *adev)
{
	adev->reg_offset[GC_HWIP][0] = (u32 *)GC_BASE.instance[0].segment;
	adev->reg_offset[HDP_HWIP][0] = (u32 *)HDP_BASE.instance[0].segment;
	adev->reg_offset[MMHUB_HWIP][0] = (u32 *)MMHUB_BASE.instance[0].segment;
	adev->reg_offset[ATHUB_HWIP][0] = (u32 *)ATHUB_BASE.instance[0].segment;
	adev->reg_offset[NBIO_HWIP][0] = (u32 *)NBIO_BASE.instance[0].segment;
	adev->reg_offset[MP0_HWIP][0] = (u32 *)MP0_BASE.instance[0].segment;
	adev->reg_offset[MP1_HWIP][0] = (u32 *)MP1_BASE.instance[0].segment;
	adev->reg_offset[DF_HWIP][0] = (u32 *)DF_BASE.instance[0].segment;
	adev->reg_offset[DCE_HWIP][0] = (u32 *)DCN_BASE.instance[0].segment;
	adev->reg_offset[OSSSYS_HWIP][0] = (u32 *)OSSSYS_BASE.instance[0].segment;
	adev->reg_offset[SDMA0_HWIP][0] = (u32 *)SDMA0_BASE.instance[0].segment;
	adev->reg_offset[SDMA1_HWIP][0] = (u32 *)SDMA1_BASE.instance[0].segment;
	adev->reg_offset[SMUIO_HWIP][0] = (u32 *)SMUIO_BASE.instance[0].segment;
	adev->reg_offset[THM_HWIP][0] = (u32 *)THM_BASE.instance[0].segment;
	adev->reg_offset[CLK_HWIP][0] = (u32 *)CLK_BASE.instance[0].segment;
}

/*
 * Blocks as in amdgpu_discovery.c:amdgpu_discovery_set_ip_blocks @ 6.12.117 for GC 10.3.0. PSP, SMU, UMC, VCN, JPEG and
 * DCN are left out.
 */
static int sim_gfx1030_blocks(struct amdgpu_device *adev)
{
	sim_gfx1030_registers(adev);
	sim_sdma_engines(adev, SIM_GFX1030_SDMA, IP_VERSION(5, 2, 0));
	adev->gmc.num_umc = 16;
	adev->gfx.xcc_mask = 1;
	adev->ip_versions[MMHUB_HWIP][0] = IP_VERSION(2, 1, 0);
	adev->ip_versions[ATHUB_HWIP][0] = IP_VERSION(2, 1, 0);
	adev->ip_versions[OSSSYS_HWIP][0] = IP_VERSION(5, 0, 3);
	adev->ip_versions[HDP_HWIP][0] = IP_VERSION(5, 0, 3);
	adev->ip_versions[NBIO_HWIP][0] = IP_VERSION(3, 3, 0);
	adev->ip_versions[SMUIO_HWIP][0] = IP_VERSION(11, 0, 6);
	adev->ip_versions[GC_HWIP][0] = IP_VERSION(10, 3, 0);
	adev->smuio.funcs = &smuio_v11_0_6_funcs;
	adev->nbio.funcs = &nbio_v2_3_funcs;
	adev->nbio.hdp_flush_reg = &nbio_v2_3_hdp_flush_reg;
	adev->hdp.funcs = &hdp_v5_0_funcs;
	return 0;
}

static void sim_gfx1030_preset(struct amdgpu_device *adev, u32 vram_mb, u32 fb_top)
{
	sim_preset(adev, SOC15_REG_OFFSET(NBIO, 0, mmRCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE), vram_mb);
	sim_preset(adev, SOC15_REG_OFFSET(GC, 0, mmGCMC_VM_FB_LOCATION_BASE), SIM_FB);
	sim_preset(adev, SOC15_REG_OFFSET(GC, 0, mmGCMC_VM_FB_LOCATION_TOP), fb_top);
}

/* The client of the fourth engine differs from gfx9's (sdma_v5_2.c:sdma_v5_2_seq_to_irq_id @ 6.12.117). */
static const u8 sim_gfx1030_clients[SIM_GFX1030_SDMA] = {
	SOC15_IH_CLIENTID_SDMA0, SOC15_IH_CLIENTID_SDMA1, SOC15_IH_CLIENTID_SDMA2, SOC15_IH_CLIENTID_SDMA3_Sienna_Cichlid,
};

extern const struct kfd2kgd_calls gfx_v10_3_kfd2kgd;
extern struct kfd2kgd_calls sim_gfx1030_kfd2kgd;
struct kfd2kgd_calls sim_gfx1030_kfd2kgd;

const struct sim_chip sim_gfx1030 = {
	.name = "gfx1030",
	.generation = &sim_gfx10,
	.asic = CHIP_SIENNA_CICHLID,
	.calls = &sim_gfx1030_kfd2kgd,
	.drivers_calls = &gfx_v10_3_kfd2kgd,
	.sdma = &sdma_v5_2_ip_block,
	.sdma_clients = sim_gfx1030_clients,
	.mec_firmware = 0x6b,	/* the first with GWS; from 92 on it needs no PCIe atomics (kfd_device.c @ 6.12.117) */
	.shader_engines = 4,
	.waves_per_simd = 16,
	.gb_addr_config = 0x444,
	.blocks = sim_gfx1030_blocks,
	.preset = sim_gfx1030_preset,
};
