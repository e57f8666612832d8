// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Doorbells by page fault. While queues are idle the doorbell pages of a process are not in
 * its page tables, so that ringing one faults and wakes the worker. The page then stays
 * mapped, and the worker polls, until nothing has happened for a while.
 */
#include <linux/sched/mm.h>

#include "kernels.h"
#include "kfdsim.h"

#define SIM_DOORBELL_PAGES (SIM_DOORBELL_SLICE / PAGE_SIZE)

static vm_fault_t sim_doorbell_fault(struct vm_fault *vmf)
{
	struct sim_pdd *pdd = vmf->vma->vm_private_data;
	unsigned long pfn = virt_to_phys((void *)pdd->doorbells) >> PAGE_SHIFT;
	vm_fault_t ret;

	ret = vmf_insert_pfn(vmf->vma, vmf->address, pfn + vmf->pgoff % SIM_DOORBELL_PAGES);
	/*
	 * Only now: were the worker told first, it could find nothing and take pages out again
	 * before this one goes in, and never hear of the store that follows.
	 */
	atomic64_inc(&sim_count.doorbell_faults);
	sim_worker_kick(pdd->p);
	return ret;
}

static const struct vm_operations_struct sim_doorbell_vm_ops = {
	.fault = sim_doorbell_fault,
};

/*
 * A shared mapping of the doorbells; its flags are set already (VM_PFNMAP). The file that it
 * holds keeps the process, and so pdd.
 */
void sim_doorbell_mmap(struct vm_area_struct *vma, struct sim_pdd *pdd)
{
	vma->vm_private_data = pdd;
	vma->vm_ops = &sim_doorbell_vm_ops;
}

/* From now on a doorbell that is rung faults. One rung before is seen by the next look. */
void sim_doorbell_arm(struct sim_process *p)
{
	VMA_ITERATOR(vmi, p->mm, 0);
	struct vm_area_struct *vma;

	if (!mmget_not_zero(p->mm))
		return;
	mmap_read_lock(p->mm);
	for_each_vma(vmi, vma)
		if (vma->vm_ops == &sim_doorbell_vm_ops)
			zap_special_vma_range(vma, vma->vm_start,
					      vma->vm_end - vma->vm_start);
	mmap_read_unlock(p->mm);
	mmput_async(p->mm);
}
