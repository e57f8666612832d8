// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Module parameters, start and stop. */
#include <linux/dma-mapping.h>

#include "kfdsim.h"

static unsigned int vram_mb = 4096;
module_param(vram_mb, uint, 0444);
MODULE_PARM_DESC(vram_mb, "VRAM of the simulated GPU, in MiB (default 4096)");

static unsigned int gpu_id = 0x1a2b;
module_param(gpu_id, uint, 0444);
MODULE_PARM_DESC(gpu_id, "KFD gpu_id, 1 to 65535 (default 6699)");

static unsigned int gfx_target_version = 90010;
module_param(gfx_target_version, uint, 0444);
MODULE_PARM_DESC(gfx_target_version, "gfx version as KFD prints it (default 90010 = gfx90a)");

static unsigned int device_id = 0x740c;
module_param(device_id, uint, 0444);
MODULE_PARM_DESC(device_id, "PCI device id shown to user space (default 0x740c)");

/*
 * Few, because the thunk allocates some 600 KiB of context save area per compute unit and queue,
 * which an emulated machine copies at every checkpoint.
 */
static unsigned int compute_units = 8;
module_param(compute_units, uint, 0444);
MODULE_PARM_DESC(compute_units, "compute units, 1 to 112 (default 8; an MI250X die has 104)");

struct sim_device sim;

static int sim_check_params(void)
{
	if (!gpu_id || gpu_id > U16_MAX) {
		pr_err("gpu_id %u is not in 1..65535\n", gpu_id);
		return -EINVAL;
	}
	if (!vram_mb) {
		pr_err("vram_mb must not be 0\n");
		return -EINVAL;
	}
	if (!compute_units || compute_units > 112) {
		pr_err("compute_units %u is not in 1..112\n", compute_units);
		return -EINVAL;
	}
	sim.gpu_id = gpu_id;
	sim.compute_units = compute_units;
	sim.gfx_target_version = gfx_target_version;
	sim.device_id = device_id;
	sim.vram_bytes = (u64)vram_mb << 20;
	/* The real driver offers three quarters of system memory as GTT. */
	sim.gtt_bytes = ((u64)totalram_pages() << PAGE_SHIFT) / 4 * 3;
	return 0;
}

static int __init sim_init(void)
{
	int ret;

	ret = sim_check_params();
	if (ret)
		return ret;
	sim_engines_init();
	ret = sim_process_init();
	if (ret)
		return ret;
	sim.pdev = platform_device_register_simple("kfdsim", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(sim.pdev)) {
		ret = PTR_ERR(sim.pdev);
		goto err_process;
	}
	dma_coerce_mask_and_coherent(&sim.pdev->dev, DMA_BIT_MASK(64));
	ret = sim_drm_init();
	if (ret)
		goto err_pdev;
	ret = sim_kfd_init();
	if (ret)
		goto err_drm;
	sim_debugfs_init();
	pr_info("simulated GPU %u: gfx %u, %u MiB VRAM, renderD%d\n", sim.gpu_id,
		sim.gfx_target_version, vram_mb, sim.drm->render->index);
	return 0;

err_drm:
	sim_drm_fini();
err_pdev:
	platform_device_unregister(sim.pdev);
err_process:
	sim_process_fini();
	return ret;
}

static void __exit sim_exit(void)
{
	sim_debugfs_fini();
	sim_kfd_fini();
	/* Releases that still run use the sysfs of the device: wait for them first. */
	sim_process_fini();
	sim_drm_fini();
	platform_device_unregister(sim.pdev);
}

module_init(sim_init);
module_exit(sim_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("kfdsim: simulated AMD GPU with the amdgpu/KFD user interface");
MODULE_IMPORT_NS(DMA_BUF);
