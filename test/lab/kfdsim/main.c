// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Start and stop of the module. Its GPUs are made in gpus.c. */
#include "kernels.h"
#include "kfdsim.h"

struct sim_device sim;

static int __init sim_init(void)
{
	int ret = sim_pages_init();

	if (ret)
		return ret;
	ret = sim_process_init();
	if (ret)
		goto err_pages;
	ret = sim_submissions_init();
	if (ret)
		goto err_process;
	ret = sim_gpus_init();
	if (ret)
		goto err_submissions;
	ret = sim_kfd_init();
	if (ret)
		goto err_gpus;
	sim_debugfs_init();
	return 0;

err_gpus:
	sim_gpus_fini();
err_submissions:
	sim_submissions_fini();
err_process:
	sim_process_fini();
err_pages:
	sim_pages_fini();
	return ret;
}

static void __exit sim_exit(void)
{
	sim_debugfs_fini();
	sim_kfd_fini();
	/* Releases that still run use the sysfs of the device: wait for them first. */
	sim_process_fini();
	sim_gpus_fini();
	sim_submissions_fini();
	sim_pages_fini();
}

module_init(sim_init);
module_exit(sim_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("kfdsim: simulated AMD GPUs with the amdgpu/KFD user interface");
MODULE_IMPORT_NS(SIM_NS_DMA_BUF);
