// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Which kernel's driver is simulated, where kernels differ. */
#include <linux/string.h>

#include "kfdsim.h"

static const char * const names[] = {
	[SIM_LINUX_6_12] = "6.12",
	[SIM_LINUX_7_3] = "7.3",
};

static enum sim_kernel behaves_as = SIM_LINUX_6_12;

static int sim_behaves_set(const char *val, const struct kernel_param *kp)
{
	int i = sysfs_match_string(names, val);

	if (i < 0)
		return i;
	WRITE_ONCE(behaves_as, i);
	return 0;
}

static int sim_behaves_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", names[READ_ONCE(behaves_as)]);
}

static const struct kernel_param_ops sim_behaves_ops = {
	.set = sim_behaves_set,
	.get = sim_behaves_get,
};

module_param_cb(behaves_as, &sim_behaves_ops, NULL, 0644);
MODULE_PARM_DESC(behaves_as,
		 "6.12 (default) or 7.3; a KFD process keeps what held when it opened /dev/kfd");

enum sim_kernel sim_behaves_as(void)
{
	return READ_ONCE(behaves_as);
}
