// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Which kernel's driver is simulated: the table of differences, and the parameter that chooses. */
#include <linux/string.h>

#include "kfdsim.h"

/* What each has of struct sim_kernel, read in the sources of Debian's packages of these versions. */
static const struct sim_kernel kernels[] = {
	{				/* @ 6.1.192 */
		.name = "6.1", .kfd_minor = 11, .kfd_commands = 0x24, .kms_minor = 49,
		.create_flags = SIM_CREATE_SETTABLE_61,
		.own_event_page = true, .queues_outlive_mm = true, .uses_freed_folder = true,
		.dates_eviction_without_vm = true, .pauses_every_time = true, .bo_gpus = 16,
		.hides_address_0 = true, .dmabuf_per_export = true, .saves_gfx = 10,
		.checks_mqd_size = true,
	},
	{				/* @ 6.12.107 */
		.name = "6.12.107", .kfd_minor = 17, .kfd_commands = 0x27, .kms_minor = 61,
		.create_flags = SIM_CREATE_SETTABLE_612,
		.own_event_page = true, .queues_outlive_mm = true, .uses_freed_folder = true,
		.pauses_every_time = true, .bo_gpus = 64, .saves_gfx = 11, .create_acquires = true,
	},
	{				/* @ 6.12.117 */
		.name = "6.12.117", .kfd_minor = 17, .kfd_commands = 0x27, .kms_minor = 61,
		.create_flags = SIM_CREATE_SETTABLE_612,
		.own_event_page = true, .queues_outlive_mm = true, .uses_freed_folder = true,
		.bo_gpus = 64, .saves_gfx = 11, .create_acquires = true, .restore_acquires = true,
		.checks_mqd_size = true,
	},
	{				/* @ 7.2.13 */
		.name = "7.2", .kfd_minor = 23, .kfd_commands = 0x29, .kms_minor = 64,
		.create_flags = SIM_CREATE_SETTABLE,
		.lists_handles = true, .svm = true, .own_event_page = true,
		.pauses_every_time = true, .bo_gpus = 64, .saves_gfx = 11, .create_acquires = true,
		.checks_mqd_size = true, .saves_every_xcc = true, .loses_ctl_stack = true,
		.ctl_stack_by_device = true, .refuses_mes = true,
	},
	{				/* @ 7.3.4 */
		.name = "7.3", .kfd_minor = 23, .kfd_commands = 0x29, .kms_minor = 64,
		.create_flags = SIM_CREATE_SETTABLE,
		.lists_handles = true, .svm = true, .user_id_maps = true, .bo_gpus = 64,
		.saves_gfx = 11, .create_acquires = true, .checks_mqd_size = true,
		.saves_every_xcc = true, .loses_ctl_stack = true, .ctl_stack_of_topology = true,
		.refuses_mes = true,
	},
};

#define SIM_DEFAULT	"6.12"
#define SIM_DEFAULT_OF	"6.12.117"	/* what the short name stands for: the guest's kernel behaves so */

static const struct sim_kernel *behaves_as = &kernels[2];

static int sim_behaves_set(const char *val, const struct kernel_param *kp)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kernels); i++) {
		if (sysfs_streq(val, kernels[i].name) ||
		    (sysfs_streq(val, SIM_DEFAULT) && !strcmp(kernels[i].name, SIM_DEFAULT_OF))) {
			WRITE_ONCE(behaves_as, &kernels[i]);
			sim_drm_behave(&kernels[i]);
			return 0;
		}
	}
	return -EINVAL;
}

static int sim_behaves_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", READ_ONCE(behaves_as)->name);
}

static const struct kernel_param_ops sim_behaves_ops = {
	.set = sim_behaves_set,
	.get = sim_behaves_get,
};

module_param_cb(behaves_as, &sim_behaves_ops, NULL, 0644);
MODULE_PARM_DESC(behaves_as,
		 "6.1, 6.12.107, 6.12.117 (default, or 6.12), 7.2 or 7.3; a KFD process keeps what held when it opened /dev/kfd");

const struct sim_kernel *sim_behaves_as(void)
{
	return READ_ONCE(behaves_as);
}
