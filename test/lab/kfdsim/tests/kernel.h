/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the kernels differ in that kfdsim can behave as. The module shares nothing with it: this is what it must do. */
#ifndef KFDSIM_TEST_KERNEL_H
#define KFDSIM_TEST_KERNEL_H

#include <stdint.h>
#include <string.h>
#include <sys/utsname.h>

#include "check.h"

struct kernel {
	const char *name;
	int kfd_minor, kms_minor;
	uint32_t bo_bytes;	/* of a BO's record in a blob */
	int user_ids;		/* an offset of /dev/kfd has the process's id of the GPU */
	int event_page;		/* of the kernel, where the process has none */
	int svm;
	int pauses_again;	/* PROCESS_INFO of a paused process evicts it once more */
	int checks_mqd;		/* RESTORE wants the size of one MQD */
	int acquires;		/* RESTORE takes the buffers of queues from their mappings, so they must be there */
	int saves_xccs;		/* all of them: RESTORE then refuses what CHECKPOINT has saved */
	int loses_stack;	/* of a compute queue of gfx9: a dispatch that was stopped is lost */
	uint32_t saves_gfx;	/* the last generation whose queues CHECKPOINT can save */
	int outlives;		/* queues end with the last file of /dev/kfd, not with the memory of the process */
	int dates_evictions;	/* also of a process without a VM */
};

static const struct kernel kernels[] = {
	{ "6.1", 11, 49, 80, 0, 1, 0, 1, 1, 0, 0, 0, 10, 1, 1 },
	{ "6.12.107", 17, 61, 272, 0, 1, 0, 1, 0, 0, 0, 0, 11, 1, 0 },
	{ "6.12.117", 17, 61, 272, 0, 1, 0, 0, 1, 1, 0, 0, 11, 1, 0 },
	{ "7.2", 23, 64, 272, 0, 1, 1, 1, 1, 0, 1, 1, 11, 0, 0 },
	{ "7.3", 23, 64, 272, 1, 0, 1, 0, 1, 0, 1, 1, 11, 0, 0 },
};

#define KERNELS ((int)(sizeof(kernels) / sizeof(*kernels)))
#define KERNEL_OF_GUEST 2	/* what the default of behaves_as is, too */

/* The one there is now. The lab's own kernels are late ones of 6.12, and 7.3. */
static inline const struct kernel *kernel_now(void)
{
	char name[16] = "";
	struct utsname own;
	FILE *f;
	int i;

	MUST(!uname(&own));
	if (!on_kfdsim())
		return &kernels[own.release[0] == '6' ? KERNEL_OF_GUEST : KERNELS - 1];
	f = fopen("/sys/module/amdgpu/parameters/behaves_as", "r");
	MUST(f && fscanf(f, "%15s", name) == 1 && !fclose(f));
	for (i = 0; i < KERNELS - 1 && strcmp(kernels[i].name, name); i++)
		;
	return &kernels[i];
}

/* Is this the kernel now? kfdsim can be any of them. */
static inline int behave_as(const struct kernel *kernel)
{
	if (!on_kfdsim())
		return kernel == kernel_now();
	set_parameter("behaves_as", kernel->name);
	return kernel_now() == kernel;
}

#endif
