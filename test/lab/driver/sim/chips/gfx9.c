// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Common parts of gfx906, gfx90a and gfx942. */
#include "sim.h"

#include "chip.h"
#include "gc/gc_9_0_sh_mask.h"
#include "gmc_v9_0.h"
#include "soc15.h"
#include "vega20_ih.h"

const struct sim_generation sim_gfx9 = {
	.family = AMDGPU_FAMILY_AI,
	.common = &vega10_common_ip_block,
	.gmc = &gmc_v9_0_ip_block,
	.ih = &vega20_ih_ip_block,
	.gfx = &sim_gfx9_ip_block,
	.cus = 1,
	.simds_per_cu = 4,
	.wave_size = 64,
	.aql = CP_HQD_PQ_CONTROL__SLOT_BASED_WPTR_MASK,
	.sdma_place = offsetof(struct v9_sdma_mqd, sdma_engine_id),
};

static_assert(offsetof(struct v9_sdma_mqd, sdma_queue_id) == offsetof(struct v9_sdma_mqd, sdma_engine_id) + 4);
