// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * RDNA. Its compute units come in pairs (kfd_mqd_manager.c:mqd_symmetrically_map_cu_mask @ 6.12.117). CHECKPOINT copies
 * no control stack. The stack lies in the save area, which is memory of the process
 * (kfd_mqd_manager_v10.c:get_wave_state, checkpoint_mqd @ 6.12.117).
 */
#include "sim.h"

#include "chip.h"
#include "gc/gc_10_3_0_sh_mask.h"
#include "gmc_v10_0.h"
#include "navi10_ih.h"
#include "nv.h"
#include "v10_structs.h"

const struct sim_generation sim_gfx10 = {
	.family = AMDGPU_FAMILY_NV,
	.common = &nv_common_ip_block,
	.gmc = &gmc_v10_0_ip_block,
	.ih = &navi10_ih_ip_block,
	.gfx = &sim_gfx10_ip_block,
	.cus = 2,
	.simds_per_cu = 2,
	.wave_size = 32,
	.aql = CP_HQD_PQ_CONTROL__SLOT_BASED_WPTR_MASK,
	.sdma_place = offsetof(struct v10_sdma_mqd, sdma_engine_id),
	.stack_in_save_area = true,
};

static_assert(offsetof(struct v10_sdma_mqd, sdma_queue_id) == offsetof(struct v10_sdma_mqd, sdma_engine_id) + 4);

/* Members that are used by their names in gfx9's MQDs have the same places in these. */
#define SIM_SAME(field) static_assert(offsetof(struct v9_mqd, field) == offsetof(struct v10_compute_mqd, field))
SIM_SAME(cp_hqd_vmid);
SIM_SAME(cp_hqd_pq_base_lo);
SIM_SAME(cp_hqd_pq_base_hi);
SIM_SAME(cp_hqd_pq_rptr);
SIM_SAME(cp_hqd_pq_rptr_report_addr_lo);
SIM_SAME(cp_hqd_pq_rptr_report_addr_hi);
SIM_SAME(cp_hqd_pq_wptr_poll_addr_lo);
SIM_SAME(cp_hqd_pq_wptr_poll_addr_hi);
SIM_SAME(cp_hqd_pq_control);
SIM_SAME(cp_hqd_ctx_save_base_addr_lo);
SIM_SAME(cp_hqd_ctx_save_base_addr_hi);
SIM_SAME(cp_hqd_ctx_save_size);
SIM_SAME(cp_hqd_cntl_stack_size);
SIM_SAME(cp_hqd_cntl_stack_offset);
SIM_SAME(cp_hqd_wg_state_offset);

#define SIM_SAME_SDMA(field) static_assert(offsetof(struct v9_sdma_mqd, field) == offsetof(struct v10_sdma_mqd, field))
SIM_SAME_SDMA(sdmax_rlcx_rb_cntl);
SIM_SAME_SDMA(sdmax_rlcx_rb_base);
SIM_SAME_SDMA(sdmax_rlcx_rb_base_hi);
SIM_SAME_SDMA(sdmax_rlcx_rb_rptr);
SIM_SAME_SDMA(sdmax_rlcx_rb_rptr_hi);
SIM_SAME_SDMA(sdmax_rlcx_rb_rptr_addr_lo);
SIM_SAME_SDMA(sdmax_rlcx_rb_rptr_addr_hi);
SIM_SAME_SDMA(sdmax_rlcx_midcmd_data0);
SIM_SAME_SDMA(sdmax_rlcx_midcmd_data1);
