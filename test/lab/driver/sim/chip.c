// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Replaces amdgpu_discovery.c: the blocks of the chip. The driver's own blocks are used for common, GMC, IH and SDMA;
 * the GFX block is ours. chips/ has the differences between kinds of GPUs.
 */
#include "sim.h"

#include "amdgpu_discovery.h"
#include "chips/chip.h"
#include "control.h"
#include "gfxhub_v1_1.h"
#include "kernels.h"

static uint hive[SIM_GPUS];
static uint hive_nr;
module_param_array(hive, uint, &hive_nr, 0444);
MODULE_PARM_DESC(hive, "GPUs with 1 are linked by XGMI (0 by default; one value holds for all)");

static const struct amd_pm_funcs sim_pp_funcs;

static const struct sim_chip *const sim_chips[] = { &sim_gfx906, &sim_gfx90a, &sim_gfx942, &sim_gfx1030 };

const struct sim_chip *sim_chip(struct amdgpu_device *adev)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(sim_chips); i++)
		if (sim_chips[i]->asic == adev->asic_type &&
		    (!sim_chips[i]->device || sim_chips[i]->device == adev->pdev->device))
			return sim_chips[i];
	return NULL;
}

void sim_preset(struct amdgpu_device *adev, u32 reg, u32 value)
{
	if (!WARN_ON((u64)reg * 4 >= adev->rmmio_size))
		writel(value, adev->rmmio + reg * 4);
}

bool sim_in_hive(unsigned int gpu)
{
	return hive_nr && hive[min(gpu, hive_nr - 1)];
}

void sim_sdma_engines(struct amdgpu_device *adev, u32 engines, u32 version)
{
	u32 i;

	adev->sdma.num_instances = engines;
	adev->sdma.sdma_mask = (1 << engines) - 1;
	for (i = 0; i < engines; i++)
		adev->ip_versions[SDMA0_HWIP][i] = version;
}

/* The number of GPUs of its hive before this one. */
u32 sim_hive_place(struct amdgpu_device *adev)
{
	u32 i, place = 0;

	for (i = 0; i < sim_gpu(adev)->index; i++)
		place += sim_in_hive(i);
	return place;
}

/*
 * Replaces gfxhub_v1_1.c: the number of this GPU in its hive. The driver wants the number of GPUs before it knows them,
 * and only checks that it is more than one. Without a PSP there is one hive (amdgpu_xgmi.c:amdgpu_xgmi_add_device @
 * 6.12.117).
 */
int gfxhub_v1_1_get_xgmi_info(struct amdgpu_device *adev)
{
	if (!sim_in_hive(sim_gpu(adev)->index))
		return 0;
	adev->gmc.xgmi.num_physical_nodes = SIM_GPUS;
	adev->gmc.xgmi.node_segment_size = SIM_HIVE_SEGMENT;
	adev->gmc.xgmi.physical_node_id = sim_hive_place(adev);
	return 0;
}

/* Registers are plain memory. Some need a value before the driver reads them. */
static int sim_make(struct amdgpu_device *adev, const struct sim_chip *chip)
{
	u32 vram_mb = pci_resource_len(adev->pdev, 0) >> 20;
	u32 seen_mb = sim_in_hive(sim_gpu(adev)->index) ? SIM_GPUS * (SIM_HIVE_SEGMENT >> 20) : vram_mb;
	int r = chip->blocks(adev);

	if (r)
		return r;
	adev->family = chip->generation->family;
	adev->firmware.load_type = AMDGPU_FW_LOAD_DIRECT;
	adev->powerplay.pp_funcs = &sim_pp_funcs;
	adev->clock.spll.reference_freq = 10000;	/* 100 MHz, in 10 kHz */
	adev->clock.default_sclk = 170000;
	adev->clock.default_mclk = 160000;
	chip->preset(adev, vram_mb, SIM_FB + (seen_mb >> 4) - 1);
	return 0;
}

static int sim_add_blocks(struct amdgpu_device *adev, const struct sim_chip *chip)
{
	const struct sim_generation *all = chip->generation;
	const struct amdgpu_ip_block_version *const blocks[] = { all->common, all->gmc, all->ih, all->gfx, chip->sdma };
	int i, r = 0;

	for (i = 0; !r && i < ARRAY_SIZE(blocks); i++)
		r = amdgpu_device_ip_block_add(adev, blocks[i]);
	return r;
}

int amdgpu_discovery_set_ip_blocks(struct amdgpu_device *adev)
{
	const struct sim_chip *chip = sim_chip(adev);
	int r;

	if (!chip) {
		dev_err(adev->dev, "there is no simulated hardware for %04x\n", adev->pdev->device);
		return -ENODEV;
	}
	r = sim_gpu_start(adev, chip) ?: sim_make(adev, chip) ?: sim_add_blocks(adev, chip);
	if (r)
		sim_gpu_stop(adev);
	return r;
}

void amdgpu_discovery_fini(struct amdgpu_device *adev)
{
}

int amdgpu_discovery_get_nps_info(struct amdgpu_device *adev, uint32_t *nps_type, SIM_NPS_RANGES)
{
	return -ENOENT;
}
