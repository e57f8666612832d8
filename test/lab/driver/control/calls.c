// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Every ioctl passes here before the driver. Rules make it fail. Calls that harm a kernel are counted. */
#include <linux/fs.h>
#include <linux/uaccess.h>

#include "sim.h"

#include "amdgpu_amdkfd.h"
#include "control.h"
#include "faults.h"
#include "kfd_priv.h"

static struct file_operations sim_kfd_ops;
static long (*sim_kfd_ioctl)(struct file *, unsigned int, unsigned long);

/* PROCESS_INFO of a process that is paused: kernels up to 6.12.112 evict it for ever. */
static void sim_watch_criu(struct kfd_process *p, void __user *arg)
{
	struct kfd_ioctl_criu_args a;

	if (!copy_from_user(&a, arg, sizeof(a)) && a.op == KFD_CRIU_OP_PROCESS_INFO && READ_ONCE(p->queues_paused))
		atomic64_inc(&sim_count.paused_again);
}

static long sim_watched_kfd_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	int error = sim_fault_kfd_ioctl(_IOC_NR(cmd));

	if (error)
		return error;
	if (_IOC_NR(cmd) == _IOC_NR(AMDKFD_IOC_CRIU_OP) && file->private_data)
		sim_watch_criu(file->private_data, (void __user *)arg);
	return sim_kfd_ioctl(file, cmd, arg);
}

/* Hook of kfd_chardev.c. */
int sim_register_chrdev(unsigned int major, unsigned int first, unsigned int count, const char *name,
			const struct file_operations *ops);
int sim_register_chrdev(unsigned int major, unsigned int first, unsigned int count, const char *name,
			const struct file_operations *ops)
{
	sim_kfd_ops = *ops;
	sim_kfd_ioctl = ops->unlocked_ioctl;
	sim_kfd_ops.unlocked_ioctl = sim_watched_kfd_ioctl;
	return __register_chrdev(major, first, count, name, &sim_kfd_ops);
}

/* Hook of kfd_chardev.c: the driver would follow a NULL pointer (kfd_chardev.c:criu_resume @ 6.12.117). */
int sim_criu_resume(void *info);
int sim_criu_resume(void *info)
{
	struct amdkfd_process_info *i = info;

	if (!i) {
		atomic64_inc(&sim_count.resume_without_vm);
		return -EINVAL;
	}
	if (!READ_ONCE(i->block_mmu_notifications))
		atomic64_inc(&sim_count.resume_unrestored);
	return amdgpu_amdkfd_criu_resume(info);
}

/* Hook of amdgpu_drv.c. */
long sim_drm_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
long sim_drm_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	int error = sim_fault_drm_ioctl(_IOC_NR(cmd));

	return error ? error : drm_ioctl(file, cmd, arg);
}
