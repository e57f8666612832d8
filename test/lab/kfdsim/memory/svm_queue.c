// SPDX-License-Identifier: GPL-2.0 OR MIT
/* SVM ranges as memory of a queue: its save area may be in one. */
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
