// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The memory a queue is made of: whole mappings, as kfd_queue.c:kfd_queue_acquire_buffers @ 6.12.117 wants them. */
#include "kfdsim.h"

#define SIM_EOP_BYTES	4096u	/* at least, kfd_queue.c:kfd_queue_ctx_save_restore_size @ 6.12.117 */

static int sim_buffer_get(struct sim_queue *q, enum sim_queue_buffer which, u64 va, u64 size)
{
	q->buffers[which] = sim_vm_queue_get(q->pdd->vm, va, size);
	return q->buffers[which] ? 0 : -EINVAL;
}

/* A save area may be in ranges of SVM where the kernel has that. */
static int sim_save_area_get(struct sim_queue *q)
{
	const struct sim_gpu *gpu = q->pdd->gpu;
	u64 size = PAGE_ALIGN(((u64)q->cwsr_size + gpu->debugger_bytes) * gpu->num_xcc);

	if (q->ctl_stack_size != gpu->ctl_stack_bytes || q->cwsr_size < gpu->cwsr_bytes)
		return -EINVAL;
	if (!sim_buffer_get(q, SIM_BUFFER_CWSR, q->cwsr, size))
		return 0;
	return q->pdd->p->kernel->svm && sim_svm_holds(q->pdd, q->cwsr, size) ? 0 : -EINVAL;
}

/* All buffers of a filled queue, or none: -EINVAL. Needs p->lock and a VM. */
int sim_queue_buffers_get(struct sim_queue *q)
{
	int ret = sim_buffer_get(q, SIM_BUFFER_WPTR, q->wptr, PAGE_SIZE) ?:
		  sim_buffer_get(q, SIM_BUFFER_RPTR, q->rptr, PAGE_SIZE) ?:
		  sim_buffer_get(q, SIM_BUFFER_RING, q->ring, q->ring_size);

	if (!ret && !sim_is_sdma(q->type)) {
		if (q->eop)
			ret = q->eop_size < SIM_EOP_BYTES ? -EINVAL :
			      sim_buffer_get(q, SIM_BUFFER_EOP, q->eop, PAGE_ALIGN((u64)q->eop_size));
		if (!ret)
			ret = sim_save_area_get(q);
	}
	if (ret)
		sim_queue_buffers_put(q);
	return ret;
}

/* Another ring for the queue: -EFAULT if it is none (kfd_process_queue_manager.c:pqm_update_queue_properties @
 * 6.12.117). */
int sim_queue_ring_change(struct sim_queue *q, u64 ring, u64 size)
{
	struct sim_bo *bo;

	if (!ring || !size)
		return 0;
	bo = sim_vm_queue_get(q->pdd->vm, ring, size);
	if (!bo)
		return -EFAULT;
	if (q->buffers[SIM_BUFFER_RING])
		sim_vm_queue_put(q->pdd->vm, q->buffers[SIM_BUFFER_RING]);
	q->buffers[SIM_BUFFER_RING] = bo;
	return 0;
}

void sim_queue_buffers_put(struct sim_queue *q)
{
	int i;

	for (i = 0; i < SIM_QUEUE_BUFFERS; i++) {
		if (q->buffers[i])
			sim_vm_queue_put(q->pdd->vm, q->buffers[i]);
		q->buffers[i] = NULL;
	}
}
