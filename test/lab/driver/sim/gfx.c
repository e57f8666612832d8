// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The GFX block: shape of the GPU and its partitions, queues that are left to KFD, clock. It has no rings. */
#include "sim.h"

#include "amdgpu_gfx.h"
#include "amdgpu_xcp.h"
#include "chips/chip.h"
#include "control.h"
#include "ivsrcid/gfx/irqsrcs_gfx_9_0.h"
#include "kernels.h"
#include "soc15.h"

#define SIM_KERNEL_QUEUES	8	/* of the first MEC, which the driver keeps for itself */

static uint64_t sim_gfx_clock(struct amdgpu_device *adev)
{
	return sim_clock();
}

static void sim_select_se_sh(struct amdgpu_device *adev, u32 se, u32 sh, u32 instance, int xcc)
{
}

static void sim_select_me_pipe_q(struct amdgpu_device *adev, u32 me, u32 pipe, u32 q, u32 vmid, u32 xcc)
{
}

static int sim_switch_partition(struct amdgpu_device *adev, int xccs)
{
	adev->gfx.num_xcc_per_xcp = xccs;
	sim_chip(adev)->partition(adev, xccs);
	return 0;
}

static int sim_xccs_of_partition(struct amdgpu_device *adev)
{
	return adev->gfx.num_xcc_per_xcp;
}

/* The node is the one of sim_ih_node(). */
static int sim_ih_xcc(struct amdgpu_device *adev, int node)
{
	return node / 4 * 2 + (node % 4 == 2);
}

static const struct amdgpu_gfx_funcs sim_gfx_funcs = {
	.get_gpu_clock_counter = sim_gfx_clock,
	.select_se_sh = sim_select_se_sh,
	.select_me_pipe_q = sim_select_me_pipe_q,
	.switch_partition_mode = sim_switch_partition,
	.get_xccs_per_xcp = sim_xccs_of_partition,
	.ih_node_to_logical_xcc = sim_ih_xcc,
};

/*
 * There is no RLC. The driver asks for its functions after a reset (amdgpu_vm.c:amdgpu_vm_flush @ 6.12.117), and always
 * @ 7.3.4.
 */
static bool sim_rlc_enabled(struct amdgpu_device *adev)
{
	return false;
}

static const struct amdgpu_rlc_funcs sim_rlc_funcs = { .is_rlc_enabled = sim_rlc_enabled };

static int sim_eop_state(struct amdgpu_device *adev, struct amdgpu_irq_src *src, unsigned int type,
			 enum amdgpu_interrupt_state state)
{
	return 0;
}

/* An interrupt of no ring of the driver is for KFD. The driver passes it on. */
static int sim_eop(struct amdgpu_device *adev, struct amdgpu_irq_src *src, struct amdgpu_iv_entry *entry)
{
	return 0;
}

static const struct amdgpu_irq_src_funcs sim_eop_funcs = { .set = sim_eop_state, .process = sim_eop };

static int sim_gfx_early_init(struct amdgpu_ip_block *ip_block)
{
	struct amdgpu_device *adev = ip_block->adev;

	adev->gfx.funcs = &sim_gfx_funcs;
	adev->gfx.rlc.funcs = &sim_rlc_funcs;
	adev->gfx.num_gfx_rings = 0;
	adev->gfx.mec.num_mec = 2;
	adev->gfx.mec.num_pipe_per_mec = 4;
	adev->gfx.mec.num_queue_per_pipe = 8;
	adev->gfx.mec_fw_version = adev->gfx.mec2_fw_version = sim_chip(adev)->mec_firmware;
	adev->gfx.eop_irq.num_types = 1;
	adev->gfx.eop_irq.funcs = &sim_eop_funcs;
	adev->gds.gws_size = 64;
	adev->gds.oa_size = 16;
	return 0;
}

static void sim_gfx_shape(struct amdgpu_device *adev)
{
	struct amdgpu_gfx_config *c = &adev->gfx.config;
	struct amdgpu_cu_info *cu = &adev->gfx.cu_info;
	const struct sim_chip *chip = sim_chip(adev);
	u32 i, xcc;

	c->max_shader_engines = chip->shader_engines;
	c->max_sh_per_se = 1;
	c->max_cu_per_sh = 16;
	c->max_backends_per_se = 4;
	c->max_texture_channel_caches = 16;
	c->max_gprs = 256;
	c->max_gs_threads = 32;
	c->max_hw_contexts = 8;
	c->num_tile_pipes = 8;
	c->gb_addr_config = chip->gb_addr_config;
	cu->simd_per_cu = chip->generation->simds_per_cu;
	cu->max_waves_per_simd = chip->waves_per_simd;
	cu->wave_front_size = chip->generation->wave_size;
	cu->max_scratch_slots_per_cu = 32;
	cu->lds_size = 64;
	cu->number = chip->shader_engines * chip->generation->cus * NUM_XCC(adev->gfx.xcc_mask);
	for (xcc = 0; xcc < NUM_XCC(adev->gfx.xcc_mask); xcc++)
		for (i = 0; i < chip->shader_engines; i++)
			cu->bitmap[xcc][i % 4][i / 4] = (1 << chip->generation->cus) - 1;
}

static int sim_gfx_sw_init(sim_block *block)
{
	struct amdgpu_device *adev = sim_block_device(block);

	sim_gfx_shape(adev);
	adev->gfx.num_compute_rings = SIM_KERNEL_QUEUES;
	amdgpu_gfx_compute_queue_acquire(adev);
	adev->gfx.num_compute_rings = 0;
	return amdgpu_irq_add_id(adev, SOC15_IH_CLIENTID_GRBM_CP, GFX_9_0__SRCID__CP_EOP_INTERRUPT, &adev->gfx.eop_irq);
}

static int sim_gfx_resume(sim_block *block)
{
	sim_gpu_reset(sim_block_device(block));
	return 0;
}

/* Does the work of gfx_v9_4_3.c:gfx_v9_4_3_cp_resume @ 6.12.117. */
static int sim_gfx_hw_init(sim_block *block)
{
	struct amdgpu_device *adev = sim_block_device(block);

	return adev->xcp_mgr ? amdgpu_xcp_switch_partition_mode(adev->xcp_mgr, amdgpu_user_partt_mode) : 0;
}

static int sim_gfx_nothing(sim_block *block)
{
	return 0;
}

static int sim_gfx_hw_fini(sim_block *block)
{
	sim_shortage_end(sim_block_device(block));
	return 0;
}

static int sim_gfx_sw_fini(sim_block *block)
{
	sim_gpu_stop(sim_block_device(block));
	return 0;
}

static bool sim_gfx_idle(sim_block *block)
{
	return true;
}

static int sim_gfx_clockgating(sim_block *block, enum amd_clockgating_state state)
{
	return 0;
}

static int sim_gfx_powergating(sim_block *block, enum amd_powergating_state state)
{
	return 0;
}

static const struct amd_ip_funcs sim_gfx_ip_funcs = {
	.name = "sim_gfx",
	.early_init = sim_gfx_early_init,
	.sw_init = sim_gfx_sw_init,
	.sw_fini = sim_gfx_sw_fini,
	.hw_init = sim_gfx_hw_init,
	.hw_fini = sim_gfx_hw_fini,
	.suspend = sim_gfx_nothing,
	.resume = sim_gfx_resume,
	.is_idle = sim_gfx_idle,
	.wait_for_idle = sim_gfx_nothing,
	.set_clockgating_state = sim_gfx_clockgating,
	.set_powergating_state = sim_gfx_powergating,
};

const struct amdgpu_ip_block_version sim_gfx9_ip_block = {
	.type = AMD_IP_BLOCK_TYPE_GFX, .major = 9, .minor = 4, .rev = 2, .funcs = &sim_gfx_ip_funcs,
};

const struct amdgpu_ip_block_version sim_gfx10_ip_block = {
	.type = AMD_IP_BLOCK_TYPE_GFX, .major = 10, .minor = 0, .rev = 0, .funcs = &sim_gfx_ip_funcs,
};
