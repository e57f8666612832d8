// SPDX-License-Identifier: GPL-2.0 OR MIT
/* SVM ranges as memory that GPUs reach: the process's own, at its own addresses. */
#include "kfdsim.h"
#include "memory/svm.h"

/*
 * Are all these bytes in ranges that the GPU of pdd has access to, and that stay mapped for it
 * (kfd_queue.c:kfd_queue_buffer_svm_get @ 7.3.4)?
 */
bool sim_svm_holds(struct sim_pdd *pdd, u64 va, u64 size)
{
	u64 first = va >> PAGE_SHIFT, last = (va + size - 1) >> PAGE_SHIFT, gpu = BIT(pdd - pdd->p->pdds);
	struct sim_svm_range *r;
	bool holds = size && va + size > va;

	mutex_lock(&pdd->p->svm.lock);
	while (holds && first <= last) {
		r = sim_svm_first(pdd->p, first, first);
		holds = r && (r->attrs.access | r->attrs.in_place) & gpu &&
			r->attrs.flags & KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED;
		if (holds)
			first = r->it.last + 1;
	}
	mutex_unlock(&pdd->p->svm.lock);
	return holds;
}

/*
 * The memory at an address of the VM that no BO is mapped at, as a BO of the cursor's alone, up to the end of its
 * range; *left has the bytes until there. NULL: no range that the GPU has access to.
 */
struct sim_bo *sim_svm_bo(struct sim_vm *vm, u64 va, bool write, u64 *left)
{
	u64 page = va >> PAGE_SHIFT, size = 0;
	struct sim_svm_range *r;
	bool read_only = false;
	struct sim_bo *bo = NULL;
	struct sim_pdd *pdd = sim_pdd_of_vm(vm);

	if (!pdd)
		return NULL;
	mutex_lock(&pdd->p->svm.lock);
	r = sim_svm_first(pdd->p, page, page);
	if (r && (r->attrs.access | r->attrs.in_place) & BIT(pdd - pdd->p->pdds)) {
		size = (r->it.last + 1 - page) << PAGE_SHIFT;
		read_only = r->attrs.flags & KFD_IOCTL_SVM_FLAG_GPU_RO;
	}
	mutex_unlock(&pdd->p->svm.lock);
	if (size && !(write && read_only))
		bo = sim_bo_create_userptr(vm->gpu, pdd->p->mm, va & PAGE_MASK, size, read_only);
	sim_process_put(pdd->p);
	if (IS_ERR_OR_NULL(bo))
		return NULL;
	*left = size - offset_in_page(va);
	return bo;
}
