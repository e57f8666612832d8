// SPDX-License-Identifier: GPL-2.0 OR MIT
/* XGMI of gfx942. It has its own file, because GC and the MM hub have registers of the same names. */
#include "sim.h"

#include "chip.h"
#include "gc/gc_9_4_3_offset.h"
#include "gc/gc_9_4_3_sh_mask.h"
#include "soc15.h"
#include "soc15_common.h"

/* The number of this GPU in its hive (gfxhub_v1_2.c:gfxhub_v1_2_get_xgmi_info @ 6.12.117). */
void sim_gfx942_hive(struct amdgpu_device *adev)
{
	sim_preset(adev, SOC15_REG_OFFSET(GC, 0, regMC_VM_XGMI_LFB_CNTL),
		   REG_SET_FIELD(REG_SET_FIELD(0, MC_VM_XGMI_LFB_CNTL, PF_MAX_REGION, SIM_GPUS - 1),
				 MC_VM_XGMI_LFB_CNTL, PF_LFB_REGION, sim_hive_place(adev)));
	sim_preset(adev, SOC15_REG_OFFSET(GC, 0, regMC_VM_XGMI_LFB_SIZE), SIM_HIVE_SEGMENT >> 24);
}
