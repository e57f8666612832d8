// SPDX-License-Identifier: GPL-2.0 OR MIT
/* /dev/kfd: open, dispatch of ioctls, mmap of doorbells and the MMIO page. */
#include <linux/fs.h>
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/uaccess.h>

#include "kfdsim.h"

#define SIM_IOC_CRIU BIT(0)	/* needs checkpoint rights; a tracer may call it */

struct sim_ioctl {
	unsigned int cmd;
	u32 flags;
	int (*func)(struct sim_process *p, void *data);
};

#define SIM_KFD(name, _func, _flags) \
	[_IOC_NR(AMDKFD_IOC_##name)] = { AMDKFD_IOC_##name, _flags, _func }

static int sim_kfd_no_debug(struct sim_process *p, void *data)
{
	return -EPERM;
}

/* Nothing can be debugged; but a process that is not there is found missing first. */
static int sim_kfd_dbg_trap(struct sim_process *p, void *data)
{
	struct kfd_ioctl_dbg_trap_args *args = data;
	struct pid *pid = find_get_pid(args->pid);

	if (!pid)
		return -ESRCH;
	put_pid(pid);
	return -EINVAL;
}

/* The most that a kernel has; CREATE_PROCESS and PROFILER of 7.2 and 7.3 are not modelled. */
#define SIM_COMMAND_END 0x29

/* Numbers without an entry answer -EINVAL, beyond the end of the kernel's table -ENOTTY. */
static const struct sim_ioctl sim_ioctl_table[SIM_COMMAND_END] = {
	SIM_KFD(GET_VERSION, sim_kfd_get_version, 0),
	SIM_KFD(CREATE_QUEUE, sim_kfd_create_queue, 0),
	SIM_KFD(DESTROY_QUEUE, sim_kfd_destroy_queue, 0),
	SIM_KFD(SET_MEMORY_POLICY, sim_kfd_check_gpu_policy, 0),
	SIM_KFD(GET_CLOCK_COUNTERS, sim_kfd_get_clock_counters, 0),
	SIM_KFD(GET_PROCESS_APERTURES, sim_kfd_get_apertures, 0),
	SIM_KFD(UPDATE_QUEUE, sim_kfd_update_queue, 0),
	SIM_KFD(CREATE_EVENT, sim_kfd_create_event, 0),
	SIM_KFD(DESTROY_EVENT, sim_kfd_destroy_event, 0),
	SIM_KFD(SET_EVENT, sim_kfd_set_event, 0),
	SIM_KFD(RESET_EVENT, sim_kfd_reset_event, 0),
	SIM_KFD(WAIT_EVENTS, sim_kfd_wait_events, 0),
	SIM_KFD(DBG_REGISTER_DEPRECATED, sim_kfd_no_debug, 0),
	SIM_KFD(DBG_UNREGISTER_DEPRECATED, sim_kfd_no_debug, 0),
	SIM_KFD(DBG_ADDRESS_WATCH_DEPRECATED, sim_kfd_no_debug, 0),
	SIM_KFD(DBG_WAVE_CONTROL_DEPRECATED, sim_kfd_no_debug, 0),
	SIM_KFD(SET_SCRATCH_BACKING_VA, sim_kfd_check_gpu_scratch, 0),
	SIM_KFD(SET_TRAP_HANDLER, sim_kfd_check_gpu_trap, 0),
	SIM_KFD(GET_PROCESS_APERTURES_NEW, sim_kfd_get_apertures_new, 0),
	SIM_KFD(ACQUIRE_VM, sim_kfd_acquire_vm, 0),
	SIM_KFD(ALLOC_MEMORY_OF_GPU, sim_kfd_alloc_memory, 0),
	SIM_KFD(FREE_MEMORY_OF_GPU, sim_kfd_free_memory, 0),
	SIM_KFD(MAP_MEMORY_TO_GPU, sim_kfd_map_memory, 0),
	SIM_KFD(UNMAP_MEMORY_FROM_GPU, sim_kfd_unmap_memory, 0),
	SIM_KFD(SET_CU_MASK, sim_kfd_set_cu_mask, 0),
	SIM_KFD(GET_QUEUE_WAVE_STATE, sim_kfd_get_wave_state, 0),
	SIM_KFD(GET_DMABUF_INFO, sim_kfd_get_dmabuf_info, 0),
	SIM_KFD(IMPORT_DMABUF, sim_kfd_import_dmabuf, 0),
	SIM_KFD(SVM, sim_kfd_svm, 0),
	SIM_KFD(SET_XNACK_MODE, sim_kfd_set_xnack_mode, 0),
	SIM_KFD(CRIU_OP, sim_kfd_criu_op, SIM_IOC_CRIU),
	SIM_KFD(AVAILABLE_MEMORY, sim_kfd_available_memory, 0),
	SIM_KFD(EXPORT_DMABUF, sim_kfd_export_dmabuf, 0),
	SIM_KFD(RUNTIME_ENABLE, sim_kfd_runtime_enable, 0),
	SIM_KFD(DBG_TRAP, sim_kfd_dbg_trap, 0),
};

/* The task that opened the file, or for CRIU_OP exactly the thread that traces it. */
static bool sim_may_call(struct sim_process *p, const struct sim_ioctl *ioctl)
{
	bool traced;

	if (p->lead == current->group_leader)
		return true;
	if (!(ioctl->flags & SIM_IOC_CRIU))
		return false;
	rcu_read_lock();
	traced = ptrace_parent(p->lead) == current;
	rcu_read_unlock();
	return traced;
}

static long sim_kfd_unlocked_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct sim_process *p = file->private_data;
	unsigned int nr = _IOC_NR(cmd), usize = _IOC_SIZE(cmd), size;
	const struct sim_ioctl *ioctl;
	u8 stack[128] __aligned(8) = {}, *data = stack;
	long ret;

	if (nr < AMDKFD_COMMAND_START || nr >= p->kernel->kfd_commands)
		return -ENOTTY;
	ioctl = &sim_ioctl_table[nr];
	if (!sim_may_call(p, ioctl))
		return -EBADF;
	if (!ioctl->func)
		return -EINVAL;
	if (ioctl->flags & SIM_IOC_CRIU && !capable(CAP_CHECKPOINT_RESTORE) &&
	    !capable(CAP_SYS_ADMIN))
		return -EACCES;
	ret = sim_fault_kfd_ioctl(nr);
	if (ret)
		return ret;
	/* Smaller user structures are extended with zeros, larger ones are carried along. */
	size = max(usize, (unsigned int)_IOC_SIZE(ioctl->cmd));
	if (size > sizeof(stack)) {
		data = kzalloc(size, GFP_KERNEL);
		if (!data)
			return -ENOMEM;
	}
	if (ioctl->cmd & IOC_IN && copy_from_user(data, (void __user *)arg, usize))
		ret = -EFAULT;
	else if (nr == _IOC_NR(AMDKFD_IOC_SVM) && !sim_svm_args_fit(data, usize))
		ret = -EINVAL;
	else
		ret = ioctl->func(p, data);
	if (ioctl->cmd & IOC_OUT && copy_to_user((void __user *)arg, data, usize))
		ret = -EFAULT;
	if (data != stack)
		kfree(data);
	if (ret)
		pr_debug("ioctl %#x: %ld\n", nr, ret);
	return ret;
}

static int sim_kfd_open(struct inode *inode, struct file *file)
{
	struct sim_process *p = sim_process_open();

	if (IS_ERR(p))
		return PTR_ERR(p);
	file->private_data = p;
	return nonseekable_open(inode, file);
}

static int sim_kfd_release(struct inode *inode, struct file *file)
{
	sim_process_put(file->private_data);
	return 0;
}

/* The GPU an mmap offset names: by its own id, also after a restore under another, where it is not the process's. */
static struct sim_pdd *sim_mmap_pdd(struct sim_process *p, u32 gpu_id)
{
	struct sim_pdd *pdd;
	struct sim_gpu *gpu;

	if (p->kernel->user_id_maps)
		return sim_pdd_by_id(p, gpu_id) ?: ERR_PTR(-ENODEV);
	gpu = sim_gpu_by_id(gpu_id);
	if (!gpu)
		return ERR_PTR(-ENODEV);
	pdd = sim_pdd_by_gpu(p, gpu);
	return pdd ? pdd : ERR_PTR(-EINVAL);
}

static int sim_kfd_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct sim_process *p = file->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	unsigned long size = vma->vm_end - vma->vm_start, page, want;
	struct sim_pdd *pdd = sim_mmap_pdd(p, offset >> 46 & 0xffff);

	/* 6.12 would give the pages of the caller's own process here; a wrong one is refused. */
	if (p->mm != current->mm)
		return -EBADF;
	switch (offset & (3ULL << 62)) {
	case SIM_MMAP_TYPE_EVENTS:
		/* 7.3 has no event page of the kernel's: there is never one to map. */
		page = READ_ONCE(p->own_event_page);
		/* A part of it will do. */
		want = min(size, (unsigned long)SIM_EVENT_PAGE_SIZE);
		break;
	case SIM_MMAP_TYPE_DOORBELL:
		if (IS_ERR(pdd))
			return PTR_ERR(pdd);
		page = pdd->doorbells;
		want = SIM_DOORBELL_SLICE;
		break;
	case SIM_MMAP_TYPE_MMIO:
		if (IS_ERR(pdd))
			return PTR_ERR(pdd);
		page = pdd->mmio;
		want = PAGE_SIZE;
		break;
	default:
		return IS_ERR(pdd) ? PTR_ERR(pdd) : -EINVAL;
	}
	if (!page || size != want)
		return -EINVAL;
	vm_flags_set(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_NORESERVE | VM_DONTDUMP |
		     VM_PFNMAP);
	/* A private mapping is a copy whose stores never reach the device. */
	if ((offset & (3ULL << 62)) == SIM_MMAP_TYPE_DOORBELL && vma->vm_flags & VM_SHARED) {
		sim_doorbell_mmap(vma, pdd);
		return 0;
	}
	return remap_pfn_range(vma, vma->vm_start, virt_to_phys((void *)page) >> PAGE_SHIFT, size,
			       vma->vm_page_prot);
}

static const struct file_operations sim_kfd_fops = {
	.owner = THIS_MODULE,
	.open = sim_kfd_open,
	.release = sim_kfd_release,
	.unlocked_ioctl = sim_kfd_unlocked_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = sim_kfd_mmap,
};

static struct class *sim_kfd_class;

int sim_kfd_init(void)
{
	int ret;

	sim.kfd_major = register_chrdev(0, "kfd", &sim_kfd_fops);
	if (sim.kfd_major < 0)
		return sim.kfd_major;
	sim_kfd_class = class_create("kfd");
	if (IS_ERR(sim_kfd_class)) {
		ret = PTR_ERR(sim_kfd_class);
		goto err_chrdev;
	}
	sim.kfd = device_create(sim_kfd_class, NULL, MKDEV(sim.kfd_major, 0), NULL, "kfd");
	if (IS_ERR(sim.kfd)) {
		ret = PTR_ERR(sim.kfd);
		goto err_class;
	}
	ret = sim_topology_init(sim.kfd);
	if (ret)
		goto err_device;
	ret = sim_procfs_init(sim.kfd);
	if (ret)
		goto err_topology;
	return 0;

err_topology:
	sim_topology_fini();
err_device:
	device_destroy(sim_kfd_class, MKDEV(sim.kfd_major, 0));
err_class:
	class_destroy(sim_kfd_class);
err_chrdev:
	unregister_chrdev(sim.kfd_major, "kfd");
	return ret;
}

void sim_kfd_fini(void)
{
	sim_procfs_fini();
	sim_topology_fini();
	device_destroy(sim_kfd_class, MKDEV(sim.kfd_major, 0));
	class_destroy(sim_kfd_class);
	unregister_chrdev(sim.kfd_major, "kfd");
}
