// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Doorbells. Those of the kernel are calls that hooks lead here. Those of user queues are pages of a BAR: while
 * nothing happens they
 * are in nobody's page tables, and ringing one faults. Then write pointers are looked at for a while, and the pages
 * go again.
 */
#include <linux/hrtimer.h>
#include <linux/mm.h>

#include "sim.h"

#include "control.h"
#include "kfd_priv.h"

/* How long write pointers are looked at after a doorbell rang, and how often, ns. */
#define SIM_OPEN_NS	(2 * NSEC_PER_MSEC)
#define SIM_LOOK_NS	(100 * NSEC_PER_USEC)

/* Hook of sdma_v4_0.c. */
void sim_wdoorbell64(struct amdgpu_device *adev, u32 index, u64 v);
void sim_wdoorbell64(struct amdgpu_device *adev, u32 index, u64 v)
{
	struct sim_gpu *g = sim_gpu(adev);
	int i;

	amdgpu_mm_wdoorbell64(adev, index, v);
	for (i = 0; g && i < adev->sdma.num_instances; i++) {
		if (adev->sdma.instance[i].ring.doorbell_index != index)
			continue;
		WRITE_ONCE(g->ring[i].wptr, v);
		sim_wake(g);
	}
}

/* Hook of kfd_kernel_queue.c. */
void sim_kfd_doorbell64(void __iomem *db, u64 value);
void sim_kfd_doorbell64(void __iomem *db, u64 value)
{
	write_kernel_doorbell64(db, value);
	sim_wake_all();
}

/* The file's inode is /dev/kfd's for every process; the first who maps a doorbell tells it. */
static struct address_space *kfd_mapping;

/* Every doorbell page of this GPU's, out of the page tables of all processes. */
void sim_doorbells_close(struct sim_gpu *g)
{
	struct kfd_dev *kfd = g->adev->kfd.dev;
	u32 i;

	WRITE_ONCE(g->doorbells_open, 0);
	if (!kfd_mapping || !kfd)
		return;
	for (i = 0; i < kfd->num_nodes; i++)
		if (kfd->nodes[i])
			unmap_mapping_range(kfd_mapping, KFD_MMAP_TYPE_DOORBELL | KFD_MMAP_GPU_ID(kfd->nodes[i]->id),
					    kfd_doorbell_process_slice(kfd), 1);
}

/* Did the time pass in which write pointers are looked at? While it lasts they are, again and again. */
bool sim_doorbells_expired(struct sim_gpu *g)
{
	u64 until = READ_ONCE(g->doorbells_open);

	if (!until)
		return false;
	if (until <= ktime_get_ns())
		return true;
	sim_wake_at(g, min(until, ktime_get_ns() + SIM_LOOK_NS));
	return false;
}

/* Where timers end with a tick of milliseconds not at all: each ring faults, for what is rung between two looks would
 * wait for it. */
static u64 sim_open_ns(void)
{
	return hrtimer_resolution > SIM_LOOK_NS ? 0 : SIM_OPEN_NS;
}

static vm_fault_t sim_doorbell_fault(struct vm_fault *vmf)
{
	u64 first = (u64)(uintptr_t)vmf->vma->vm_private_data;
	struct sim_gpu *g;
	vm_fault_t ret;
	unsigned int i;

	for (i = 0; i < SIM_GPUS; i++) {
		g = sim_gpu_at(i);
		if (g && (first << PAGE_SHIFT) - g->adev->doorbell.base < g->adev->doorbell.size)
			break;
	}
	if (i == SIM_GPUS)
		return VM_FAULT_SIGBUS;
	/* First the page: whoever closes it from now on finds it, and what is written before that is seen by the look
	 * behind. */
	ret = vmf_insert_pfn(vmf->vma, vmf->address, first + ((vmf->address - vmf->vma->vm_start) >> PAGE_SHIFT));
	atomic64_inc(&sim_count.doorbell_faults);
	WRITE_ONCE(g->doorbells_open, ktime_get_ns() + sim_open_ns());
	sim_wake(g);
	return ret;
}

static const struct vm_operations_struct sim_doorbell_ops = { .fault = sim_doorbell_fault };

/* Hook of kfd_doorbell.c: instead of all pages at once, each when it is touched. */
int sim_map_doorbells(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn, unsigned long size, pgprot_t prot);
int sim_map_doorbells(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn, unsigned long size, pgprot_t prot)
{
	vma->vm_page_prot = prot;
	vma->vm_private_data = (void *)(uintptr_t)pfn;
	vma->vm_ops = &sim_doorbell_ops;
	WRITE_ONCE(kfd_mapping, vma->vm_file->f_mapping);
	return 0;
}
