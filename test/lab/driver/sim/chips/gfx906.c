// SPDX-License-Identifier: GPL-2.0 OR MIT
/* gfx906, MI50. KFD's VMIDs are the upper eight. Page tables have no third kind of entry. */
#include "sim.h"

#include "chip.h"
#include "df_v3_6.h"
#include "hdp_v4_0.h"
#include "kgd_kfd_interface.h"
#include "mmhub/mmhub_1_0_offset.h"
#include "nbio/nbio_7_4_offset.h"
#include "nbio_v7_4.h"
#include "sdma_v4_0.h"
#include "smuio_v11_0.h"
#include "soc15.h"
#include "soc15_common.h"

/*
 * Blocks as in amdgpu_discovery.c:amdgpu_discovery_set_ip_blocks @ 6.12.117 for CHIP_VEGA20. PSP, SMU, UMC, UVD, VCE
 * and DCE are left out.
 */
static int sim_gfx906_blocks(struct amdgpu_device *adev)
{
	vega20_reg_base_init(adev);
	adev->sdma.num_instances = 2;
	adev->sdma.sdma_mask = 3;
	adev->gmc.num_umc = 8;
	adev->gfx.xcc_mask = 1;
	adev->ip_versions[MMHUB_HWIP][0] = IP_VERSION(9, 4, 0);
	adev->ip_versions[ATHUB_HWIP][0] = IP_VERSION(9, 4, 0);
	adev->ip_versions[OSSSYS_HWIP][0] = IP_VERSION(4, 2, 0);
	adev->ip_versions[HDP_HWIP][0] = IP_VERSION(4, 2, 0);
	adev->ip_versions[SDMA0_HWIP][0] = IP_VERSION(4, 2, 0);
	adev->ip_versions[SDMA1_HWIP][0] = IP_VERSION(4, 2, 0);
	adev->ip_versions[DF_HWIP][0] = IP_VERSION(3, 6, 0);
	adev->ip_versions[NBIO_HWIP][0] = IP_VERSION(7, 4, 0);
	adev->ip_versions[SMUIO_HWIP][0] = IP_VERSION(11, 0, 2);
	adev->ip_versions[GC_HWIP][0] = IP_VERSION(9, 4, 0);
	adev->smuio.funcs = &smuio_v11_0_funcs;
	adev->df.funcs = &df_v3_6_funcs;
	adev->nbio.funcs = &nbio_v7_4_funcs;
	adev->nbio.hdp_flush_reg = &nbio_v7_4_hdp_flush_reg;
	adev->hdp.funcs = &hdp_v4_0_funcs;
	return 0;
}

static void sim_gfx906_preset(struct amdgpu_device *adev, u32 vram_mb, u32 fb_top)
{
	sim_preset(adev, SOC15_REG_OFFSET(NBIO, 0, mmRCC_CONFIG_MEMSIZE), vram_mb);
	sim_preset(adev, SOC15_REG_OFFSET(MMHUB, 0, mmMC_VM_FB_LOCATION_BASE), SIM_FB);
	sim_preset(adev, SOC15_REG_OFFSET(MMHUB, 0, mmMC_VM_FB_LOCATION_TOP), fb_top);
}

extern const struct kfd2kgd_calls gfx_v9_kfd2kgd;
extern struct kfd2kgd_calls sim_gfx906_kfd2kgd;
struct kfd2kgd_calls sim_gfx906_kfd2kgd;

const struct sim_chip sim_gfx906 = {
	.name = "gfx906",
	.generation = &sim_gfx9,
	.asic = CHIP_VEGA20,
	.calls = &sim_gfx906_kfd2kgd,
	.drivers_calls = &gfx_v9_kfd2kgd,
	.sdma = &sdma_v4_0_ip_block,
	.mec_firmware = 0x1b3,	/* the first with GWS (kfd_device.c:kfd_gws_init @ 6.12.117) */
	.shader_engines = 4,
	.waves_per_simd = 10,
	.gb_addr_config = 0x22014042,
	.blocks = sim_gfx906_blocks,
	.preset = sim_gfx906_preset,
};
