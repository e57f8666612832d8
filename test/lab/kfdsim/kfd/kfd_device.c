// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Small per-device KFD ioctls: version, clocks, apertures, VM, modes. */
#include <linux/file.h>
#include <linux/uaccess.h>

#include "gpus/topology.h"
#include "kfdsim.h"

/* 100 MHz, as gpu_counter_freq says. */
u64 sim_gpu_clock(void)
{
	return ktime_get_boottime_ns() / 10;
}

int sim_kfd_get_version(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_version_args *args = data;

	args->major_version = 1;
	args->minor_version = p->kernel->kfd_minor;
	return 0;
}

int sim_kfd_get_clock_counters(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_clock_counters_args *args = data;

	args->gpu_clock_counter = sim_pdd_by_id(p, args->gpu_id) ? sim_gpu_clock() : 0;
	args->cpu_clock_counter = ktime_get_raw_ns();
	args->system_clock_counter = ktime_get_boottime_ns();
	args->system_clock_freq = NSEC_PER_SEC;
	return 0;
}

static void sim_apertures(struct sim_pdd *pdd, struct kfd_process_device_apertures *ap)
{
	memset(ap, 0, sizeof(*ap));
	ap->lds_base = 1ULL << 48;
	ap->lds_limit = ap->lds_base | U32_MAX;
	ap->scratch_base = 2ULL << 48;
	ap->scratch_limit = ap->scratch_base | U32_MAX;
	ap->gpuvm_base = SIM_GPUVM_BASE;
	ap->gpuvm_limit = SIM_GPUVM_LIMIT;
	/* The real driver gives the actual id here even after a restore under another one. */
	ap->gpu_id = pdd->gpu->gpu_id;
}

int sim_kfd_get_apertures(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_process_apertures_args *args = data;
	u32 i, n = min_t(u32, p->nr_pdds, NUM_OF_SUPPORTED_GPUS);

	for (i = 0; i < n; i++)
		sim_apertures(&p->pdds[i], &args->process_apertures[i]);
	args->num_of_nodes = n;
	return 0;
}

/* kfd_chardev.c:kfd_ioctl_get_process_apertures_new @ 6.12.117. */
int sim_kfd_get_apertures_new(struct sim_process *p, void *data)
{
	struct kfd_ioctl_get_process_apertures_new_args *args = data;
	struct kfd_process_device_apertures __user *user =
		u64_to_user_ptr(args->kfd_process_device_apertures_ptr);
	struct kfd_process_device_apertures ap;
	u32 i, n = min(args->num_of_nodes, p->nr_pdds);

	/* Zero asks for the number of nodes only. Of more than the topology has nothing is told. */
	if (args->num_of_nodes > sim_topology_cpus() + sim.nr_gpus)
		return -EINVAL;
	for (i = 0; i < n; i++) {
		sim_apertures(&p->pdds[i], &ap);
		if (copy_to_user(user + i, &ap, sizeof(ap)))
			return -EFAULT;
	}
	args->num_of_nodes = args->num_of_nodes ? n : p->nr_pdds;
	return 0;
}

int sim_kfd_acquire_vm(struct sim_process *p, void *data)
{
	struct kfd_ioctl_acquire_vm_args *args = data;
	struct sim_pdd *pdd;
	struct file *file;
	int ret;

	mutex_lock(&p->lock);
	pdd = sim_pdd_by_id(p, args->gpu_id);
	if (p->dead) {
		ret = -ESRCH;
	} else if (!pdd) {
		ret = -EINVAL;
	} else if (!pdd->drm_file) {
		ret = sim_pdd_bind_vm(pdd, args->drm_fd);
	} else {
		file = fget(args->drm_fd);
		ret = !file ? -EINVAL : file == pdd->drm_file ? 0 : -EBUSY;
		if (file)
			fput(file);
	}
	mutex_unlock(&p->lock);
	return ret;
}

/*
 * May faults be retried? Those of gfx90a and gfx942 in every process, of others only if they are by default, which they
 * are not (kfd_process.c:kfd_process_xnack_mode @ 6.12.117). Nothing here retries one.
 */
bool sim_process_may_retry(struct sim_process *p)
{
	unsigned int i;
	u32 version;

	for (i = 0; i < p->nr_pdds; i++) {
		version = p->pdds[i].gpu->gfx_target_version;
		if (version != 90010 && version / 100 != 904)
			return false;
	}
	return true;
}

/*
 * Not even asking is allowed in a kernel without CONFIG_HSA_AMD_SVM (kfd_chardev.c:kfd_ioctl_set_xnack_mode @
 * 6.12.117). With it negative asks.
 */
int sim_kfd_set_xnack_mode(struct sim_process *p, void *data)
{
	struct kfd_ioctl_set_xnack_mode_args *args = data;
	int ret = 0;

	if (!p->kernel->svm)
		return -EPERM;
	mutex_lock(&p->lock);
	if (args->xnack_enabled < 0)
		args->xnack_enabled = p->xnack;
	else if (!list_empty(&p->queues))
		ret = -EBUSY;
	else if (args->xnack_enabled && !sim_process_may_retry(p))
		ret = -EPERM;
	else
		p->xnack = args->xnack_enabled;
	mutex_unlock(&p->lock);
	return ret;
}

/*
 * A runtime tells debuggers that it is there, once, and before it has queues (kfd_chardev.c:runtime_enable @ 6.12.117).
 * No blob has that: a restored process has not.
 */
int sim_kfd_runtime_enable(struct sim_process *p, void *data)
{
	struct kfd_ioctl_runtime_enable_args *args = data;
	bool enable = args->mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK;
	int ret = 0;

	mutex_lock(&p->lock);
	if (enable && p->runtime_enabled)
		ret = -EBUSY;
	else if (enable && !list_empty(&p->queues))
		ret = -EEXIST;
	else
		p->runtime_enabled = enable;
	mutex_unlock(&p->lock);
	return ret;
}

static int sim_check_gpu(struct sim_process *p, u32 gpu_id)
{
	return sim_pdd_by_id(p, gpu_id) ? 0 : -EINVAL;
}

/* These set registers of waves, and there are none: only the arguments are checked. */
int sim_kfd_check_gpu_policy(struct sim_process *p, void *data)
{
	struct kfd_ioctl_set_memory_policy_args *args = data;

	if (args->default_policy > KFD_IOC_CACHE_POLICY_NONCOHERENT ||
	    args->alternate_policy > KFD_IOC_CACHE_POLICY_NONCOHERENT)
		return -EINVAL;
	return sim_check_gpu(p, args->gpu_id);
}

int sim_kfd_check_gpu_scratch(struct sim_process *p, void *data)
{
	return sim_check_gpu(p, ((struct kfd_ioctl_set_scratch_backing_va_args *)data)->gpu_id);
}

int sim_kfd_check_gpu_trap(struct sim_process *p, void *data)
{
	return sim_check_gpu(p, ((struct kfd_ioctl_set_trap_handler_args *)data)->gpu_id);
}
