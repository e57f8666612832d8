// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * gfx942, MI300X. It has up to four dies, each with two XCCs, four SDMA engines and an MM hub. Its discovery table has
 * the register addresses; here they are chosen freely.
 */
#include "sim.h"

#include "chip.h"
#include "gfx_v9_4_3.h"
#include "hdp_v4_0.h"
#include "kgd_kfd_interface.h"
#include "mmhub/mmhub_1_8_0_offset.h"
#include "nbio/nbio_7_9_0_offset.h"
#include "nbio/nbio_7_9_0_sh_mask.h"
#include "nbio_v7_9.h"
#include "sdma_v4_4_2.h"
#include "smuio_v13_0_3.h"
#include "soc15.h"
#include "soc15_common.h"

#define SIM_XCC_ENGINES	2
#define SIM_DIES	4

static uint xccs = SIM_XCCS;
module_param(xccs, uint, 0444);
MODULE_PARM_DESC(xccs, "XCCs of a gfx942: 2, 4, 6 or 8 (default); "
		       "user_partt_mode of the driver says how many are a KFD node");

/* SDMA packets address registers of MM hubs with 18 bits. */
static u32 sim_gc[SIM_XCCS][2] = { { 0x2000, 0xa000 } };	/* libdrm reads GB_ADDR_CONFIG at the first one */
static u32 sim_engine[SIM_ENGINES][1], sim_mmhub[SIM_DIES][1];
static u32 sim_nbio[] = { 0, 0x14, 0xd20, 0x10400, 0x400000, 0x410000, 0, 0, 0x440000 };
static u32 sim_smuio[] = { 0x16800, 0x16a00, 0x430000 };

static void sim_gfx942_registers(struct amdgpu_device *adev)
{
	u32 i;

	aldebaran_reg_base_init(adev);	/* addresses of all other registers */
	for (i = 0; i < SIM_XCCS; i++) {
		if (i) {
			sim_gc[i][0] = 0x100000 + i * 0x20000;
			sim_gc[i][1] = sim_gc[i][0] + 0x8000;
		}
		adev->reg_offset[GC_HWIP][i] = sim_gc[i];
	}
	for (i = 0; i < SIM_ENGINES; i++) {
		sim_engine[i][0] = 0x300000 + i * 0x1000;
		adev->reg_offset[SDMA0_HWIP][i] = sim_engine[i];
	}
	for (i = 0; i < SIM_DIES; i++) {
		sim_mmhub[i][0] = 0x20000 + i * 0x1000;
		adev->reg_offset[MMHUB_HWIP][i] = sim_mmhub[i];
		adev->reg_offset[NBIO_HWIP][i] = sim_nbio;
	}
	adev->reg_offset[SMUIO_HWIP][0] = sim_smuio;
}

/* KiB. For other chips the driver itself has a table (kfd_crat.c:kfd_get_gpu_cache_info @ 6.12.117). */
static void sim_gfx942_caches(struct amdgpu_device *adev)
{
	adev->gfx.config.gc_tcp_size_per_cu = 32;
	adev->gfx.config.gc_l1_instruction_cache_size_per_sqc = 64;
	adev->gfx.config.gc_l1_data_cache_size_per_sqc = 16;
	adev->gfx.config.gc_num_cu_per_sqc = 2;
	adev->gfx.config.gc_tcc_size = 4096;
	adev->gmc.mall_size = SZ_256M;
}

/*
 * Blocks as in amdgpu_discovery.c:amdgpu_discovery_set_ip_blocks @ 6.12.117 for GC 9.4.3. PSP, SMU, UMC, VCN and JPEG
 * are left out.
 */
static int sim_gfx942_blocks(struct amdgpu_device *adev)
{
	if (xccs < 2 || xccs > SIM_XCCS || xccs % 2)
		return -EINVAL;
	sim_gfx942_registers(adev);
	sim_gfx942_caches(adev);
	sim_sdma_engines(adev, xccs * SIM_XCC_ENGINES, IP_VERSION(4, 4, 2));
	adev->gmc.num_umc = 32;
	adev->gfx.xcc_mask = (1 << xccs) - 1;
	adev->ip_versions[MMHUB_HWIP][0] = IP_VERSION(1, 8, 0);
	adev->ip_versions[ATHUB_HWIP][0] = IP_VERSION(1, 8, 0);
	adev->ip_versions[OSSSYS_HWIP][0] = IP_VERSION(4, 4, 2);
	adev->ip_versions[HDP_HWIP][0] = IP_VERSION(4, 4, 2);
	adev->ip_versions[NBIO_HWIP][0] = IP_VERSION(7, 9, 0);
	adev->ip_versions[SMUIO_HWIP][0] = IP_VERSION(13, 0, 3);
	adev->ip_versions[GC_HWIP][0] = IP_VERSION(9, 4, 3);
	adev->ip_versions[XGMI_HWIP][0] = IP_VERSION(6, 4, 0);
	adev->smuio.funcs = &smuio_v13_0_3_funcs;
	adev->nbio.funcs = &nbio_v7_9_funcs;
	adev->nbio.hdp_flush_reg = &nbio_v7_9_hdp_flush_reg;
	adev->hdp.funcs = &hdp_v4_0_funcs;
	return aqua_vanjaram_init_soc_config(adev);
}

/* Stepping 1 is gfx942, not gfx941 (kfd_device.c:kgd2kfd_probe @ 6.12.117). It has one memory partition, NPS1. */
static void sim_gfx942_preset(struct amdgpu_device *adev, u32 vram_mb, u32 fb_top)
{
	sim_preset(adev, SOC15_REG_OFFSET(NBIO, 0, regRCC_STRAP0_RCC_DEV0_EPF0_STRAP0),
		   REG_SET_FIELD(0, RCC_STRAP0_RCC_DEV0_EPF0_STRAP0, STRAP_ATI_REV_ID_DEV0_F0, 1));
	sim_preset(adev, SOC15_REG_OFFSET(NBIO, 0, regBIF_BX_PF0_PARTITION_MEM_STATUS),
		   REG_SET_FIELD(0, BIF_BX_PF0_PARTITION_MEM_STATUS, NPS_MODE, 1));
	sim_preset(adev, SOC15_REG_OFFSET(NBIO, 0, regBIF_BX_PF0_PARTITION_MEM_CAP),
		   BIF_BX_PF0_PARTITION_MEM_CAP__NPS1_SUPPORT_MASK);
	sim_preset(adev, SOC15_REG_OFFSET(NBIO, 0, regRCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE), vram_mb);
	sim_preset(adev, SOC15_REG_OFFSET(MMHUB, 0, regMC_VM_FB_LOCATION_BASE), SIM_FB);
	sim_preset(adev, SOC15_REG_OFFSET(MMHUB, 0, regMC_VM_FB_LOCATION_TOP), fb_top);
	if (sim_in_hive(sim_gpu(adev)->index))
		sim_gfx942_hive(adev);
}

/* Done by the firmware. The modes are in aqua_vanjaram.c:__aqua_vanjaram_calc_xcp_mode @ 6.12.117. */
static void sim_gfx942_partition(struct amdgpu_device *adev, u32 size)
{
	static const u8 modes[] = {
		0, AMDGPU_SPX_PARTITION_MODE, AMDGPU_DPX_PARTITION_MODE, AMDGPU_TPX_PARTITION_MODE, AMDGPU_QPX_PARTITION_MODE,
	};
	u32 partitions = NUM_XCC(adev->gfx.xcc_mask) / size;

	sim_preset(adev, SOC15_REG_OFFSET(NBIO, 0, regBIF_BX_PF0_PARTITION_COMPUTE_STATUS),
		   REG_SET_FIELD(0, BIF_BX_PF0_PARTITION_COMPUTE_STATUS, PARTITION_MODE,
				 size == 1 ? AMDGPU_CPX_PARTITION_MODE : modes[partitions]));
}

/* Replaces functions of gfx_v9_4_3.c, because the GFX block is ours. */
struct amdgpu_xcp_ip_funcs gfx_v9_4_3_xcp_funcs;

extern const struct kfd2kgd_calls gc_9_4_3_kfd2kgd;
extern struct kfd2kgd_calls sim_gfx942_kfd2kgd;
struct kfd2kgd_calls sim_gfx942_kfd2kgd;

const struct sim_chip sim_gfx942 = {
	.name = "gfx942",
	.generation = &sim_gfx9,
	.asic = CHIP_IP_DISCOVERY,
	.device = 0x74a1,
	.calls = &sim_gfx942_kfd2kgd,
	.drivers_calls = &gc_9_4_3_kfd2kgd,
	.sdma = &sdma_v4_4_2_ip_block,
	.mec_firmware = 155,
	.shader_engines = 4,
	.waves_per_simd = 8,
	.gb_addr_config = 0x2a114042,
	.blocks = sim_gfx942_blocks,
	.preset = sim_gfx942_preset,
	.partition = sim_gfx942_partition,
};
