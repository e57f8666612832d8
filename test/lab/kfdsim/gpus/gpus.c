// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The table of GPUs, filled from module parameters. Each takes a list with one value for
 * each GPU; a single value holds for all.
 */
#include <linux/dma-mapping.h>

#include "kfdsim.h"

#define SIM_DEFAULT_GPU_ID	0x1a2b
#define SIM_MAX_CUS		304	/* MI300X */
#define SIM_MAX_NUMA		4

struct sim_param {
	const char *name;
	unsigned int values[SIM_MAX_GPUS];
	unsigned int nr;		/* given by the user */
	unsigned int fallback;		/* where nothing is given */
	unsigned int min, max;
};

#define SIM_PARAM(_name, _fallback, _min, _max, desc)				\
	static struct sim_param par_##_name = {					\
		.name = #_name, .fallback = _fallback, .min = _min, .max = _max	\
	};									\
	module_param_array_named(_name, par_##_name.values, uint,		\
				 &par_##_name.nr, 0444);			\
	MODULE_PARM_DESC(_name, desc)

static unsigned int gpus;
module_param(gpus, uint, 0444);
MODULE_PARM_DESC(gpus, "number of GPUs, 1 to 8 (default: the length of the longest list, or 1)");

static unsigned int partitions = 1;
module_param(partitions, uint, 0444);
MODULE_PARM_DESC(partitions, "so many GPUs, one behind the other, are partitions of one device (default 1)");

static bool p2p;
module_param(p2p, bool, 0444);
MODULE_PARM_DESC(p2p, "peers reach VRAM over PCIe (default no, as Debian's 6.12 without HSA_AMD_P2P)");

SIM_PARAM(gpu_id, SIM_DEFAULT_GPU_ID, 1, U16_MAX, "KFD gpu_id, 1 to 65535, unique (default 6699 and on)");
SIM_PARAM(gfx_target_version, 90010, 1, 129999, "gfx version as KFD prints it (default 90010 = gfx90a)");
SIM_PARAM(device_id, 0, 1, U16_MAX, "PCI device id (default: that of a card with the gfx version)");
SIM_PARAM(vram_mb, 4096, 1, 1 << 20, "VRAM in MiB (default 4096)");
/*
 * Few, because the thunk allocates some 600 KiB of context save area per compute unit and queue,
 * which an emulated machine copies at every checkpoint.
 */
SIM_PARAM(compute_units, 8, 1, SIM_MAX_CUS, "compute units of all XCCs (default 8; an MI250X die has 104)");
SIM_PARAM(num_xcc, 0, 1, SIM_MAX_XCC, "accelerated compute cores (default 1, gfx942 8)");
SIM_PARAM(sdma_engines, 2, 1, SIM_MAX_SDMA, "SDMA engines (default 2)");
SIM_PARAM(sdma_xgmi_engines, 0, 0, SIM_MAX_SDMA - 1, "SDMA engines for copies over XGMI (default 0)");
SIM_PARAM(numa_node, 0, 0, SIM_MAX_NUMA - 1, "NUMA node the GPU is at, 0 to 3 (default 0)");
SIM_PARAM(hive, 0, 0, INT_MAX, "GPUs with the same number are linked by XGMI, 0 none (default)");

static struct sim_param *const params[] = {
	&par_gpu_id, &par_gfx_target_version, &par_device_id, &par_vram_mb, &par_compute_units,
	&par_num_xcc, &par_sdma_engines, &par_sdma_xgmi_engines, &par_numa_node, &par_hive,
};

static unsigned int sim_param_get(const struct sim_param *param, unsigned int i)
{
	return !param->nr ? param->fallback : param->values[param->nr == 1 ? 0 : i];
}

static int sim_count_gpus(void)
{
	unsigned int i, j, nr = gpus;

	for (i = 0; i < ARRAY_SIZE(params) && !gpus; i++)
		nr = max(nr, params[i]->nr);
	nr = max(nr, 1u);
	if (nr > SIM_MAX_GPUS) {
		pr_err("gpus %u is not in 1..%u\n", nr, SIM_MAX_GPUS);
		return -EINVAL;
	}
	if (!partitions || nr % partitions) {
		pr_err("%u GPUs cannot be devices of %u partitions\n", nr, partitions);
		return -EINVAL;
	}
	for (i = 0; i < ARRAY_SIZE(params); i++) {
		if (params[i]->nr > 1 && params[i]->nr != nr) {
			pr_err("%s has %u values for %u GPUs\n", params[i]->name, params[i]->nr, nr);
			return -EINVAL;
		}
		for (j = 0; j < params[i]->nr; j++) {
			if (params[i]->values[j] < params[i]->min ||
			    params[i]->values[j] > params[i]->max) {
				pr_err("%s %u is not in %u..%u\n", params[i]->name,
				       params[i]->values[j], params[i]->min, params[i]->max);
				return -EINVAL;
			}
		}
	}
	return nr;
}

/* Ids of cards that are sold; for other versions that of the default GPU. */
static u32 sim_default_device(u32 gfx_target_version)
{
	switch (gfx_target_version) {
	case 90006:
		return 0x66a1;		/* MI50 */
	case 90008:
		return 0x738c;		/* MI100 */
	case 90402:
		return 0x74a1;		/* MI300X */
	case 100300:
		return 0x73bf;		/* RX 6800 */
	default:
		return 0x740c;		/* MI250X */
	}
}

static int sim_gpu_fill(struct sim_gpu *gpu)
{
	unsigned int i = gpu->index;

	/* A list names each; a single one is the first of a row. */
	gpu->gpu_id = sim_param_get(&par_gpu_id, i);
	if (par_gpu_id.nr <= 1)
		gpu->gpu_id += i;
	gpu->gfx_target_version = sim_param_get(&par_gfx_target_version, i);
	gpu->device_id = sim_param_get(&par_device_id, i) ?:
			 sim_default_device(gpu->gfx_target_version);
	gpu->vram_bytes = (u64)sim_param_get(&par_vram_mb, i) << 20;
	gpu->compute_units = sim_param_get(&par_compute_units, i);
	gpu->num_xcc = sim_param_get(&par_num_xcc, i) ?: (gpu->gfx_target_version == 90402 ? 8 : 1);
	gpu->num_sdma = sim_param_get(&par_sdma_engines, i);
	gpu->num_xgmi = sim_param_get(&par_sdma_xgmi_engines, i);
	gpu->numa_node = sim_param_get(&par_numa_node, i);
	gpu->hive = sim_param_get(&par_hive, i);
	gpu->partition = i % partitions;
	gpu->partitions = partitions;
	if (gpu->compute_units % gpu->num_xcc) {
		pr_err("compute_units %u is no multiple of num_xcc %u\n", gpu->compute_units,
		       gpu->num_xcc);
		return -EINVAL;
	}
	if (sim_num_engines(gpu) * partitions > SIM_MAX_SDMA) {
		pr_err("sdma_engines %u and sdma_xgmi_engines %u of %u partitions are more than %u\n",
		       gpu->num_sdma, gpu->num_xgmi, partitions, SIM_MAX_SDMA);
		return -EINVAL;
	}
	if (gpu->gpu_id > U16_MAX || sim_gpu_by_id(gpu->gpu_id)) {
		pr_err("gpu_id %u is too large or used twice\n", gpu->gpu_id);
		return -EINVAL;
	}
	return 0;
}

/* The GPU of that KFD gpu_id, or NULL. */
struct sim_gpu *sim_gpu_by_id(u32 gpu_id)
{
	unsigned int i;

	for (i = 0; i < sim.nr_gpus; i++)
		if (sim.gpus[i].gpu_id == gpu_id)
			return &sim.gpus[i];
	return NULL;
}

static int sim_gpu_start(struct sim_gpu *gpu)
{
	int ret = sim_gpu_fill(gpu);

	if (ret)
		return ret;
	spin_lock_init(&gpu->sdma_lock);
	sim_kfd_handles_init(gpu);
	ret = sim_engines_init(gpu);
	if (ret)
		return ret;
	/* A parent of its own for each: libdrm tells GPUs apart by it. */
	gpu->pdev = platform_device_register_simple("kfdsim", gpu->index, NULL, 0);
	if (IS_ERR(gpu->pdev)) {
		ret = PTR_ERR(gpu->pdev);
		goto err_engines;
	}
	dma_coerce_mask_and_coherent(&gpu->pdev->dev, DMA_BIT_MASK(64));
	ret = sim_drm_init(gpu);
	if (ret)
		goto err_pdev;
	pr_info("simulated GPU %u: gfx %u, %llu MiB VRAM, renderD%d\n", gpu->gpu_id,
		gpu->gfx_target_version, gpu->vram_bytes >> 20, gpu->drm->render->index);
	return 0;

err_pdev:
	platform_device_unregister(gpu->pdev);
err_engines:
	sim_engines_fini(gpu);
	return ret;
}

/* Makes all GPUs of the parameters, or none: -EINVAL for parameters that make no sense. */
int sim_gpus_init(void)
{
	int i, ret, nr = sim_count_gpus();

	if (nr < 0)
		return nr;
	sim.p2p = p2p;
	/* amdgpu_ttm.c:amdgpu_ttm_init @ 6.12.117 */
	sim.gtt_bytes = sim_gtt_limit();
	for (i = 0; i < nr; i++) {
		sim.gpus[i].index = i;
		ret = sim_gpu_start(&sim.gpus[i]);
		if (ret) {
			sim_gpus_fini();
			return ret;
		}
		sim.nr_gpus++;
	}
	return 0;
}

void sim_gpus_fini(void)
{
	while (sim.nr_gpus) {
		struct sim_gpu *gpu = &sim.gpus[--sim.nr_gpus];

		sim_kfd_handles_fini(gpu);
		sim_drm_fini(gpu);
		platform_device_unregister(gpu->pdev);
		sim_engines_fini(gpu);
	}
}
