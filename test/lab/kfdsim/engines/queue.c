// SPDX-License-Identifier: GPL-2.0 OR MIT
/* User queues: their life, and the KFD queue ioctls. What a GPU gives them is in queue_hw.c. */
#include <linux/log2.h>
#include <linux/uaccess.h>

#include "kfdsim.h"

#define SIM_MAX_CU_MASK_BITS	1024u	/* what is beyond is ignored, as in the real driver */

/* On one GPU: kfd_process_queue_manager.c:pqm_create_queue @ 6.12.117. */
static unsigned int sim_max_queues(const struct sim_gpu *gpu)
{
	return gpu->gfx_target_version / 100 == 904 ? 255 : 127;
}

static int sim_slot_take(struct sim_process *p, struct sim_queue *q, bool restore)
{
	if (q->pdd->nr_queues >= sim_max_queues(q->pdd->gpu))
		return -ENOSPC;
	if (restore) {
		if (q->id >= SIM_MAX_QUEUES)
			return -EINVAL;
		return test_and_set_bit(q->id, p->queue_slots) ? -ENOSPC : 0;
	}
	q->id = find_first_zero_bit(p->queue_slots, SIM_MAX_QUEUES);
	if (q->id >= SIM_MAX_QUEUES)
		return -ENOMEM;
	set_bit(q->id, p->queue_slots);
	return 0;
}

/*
 * Add a filled queue (with its pdd) to p (needs p->lock), with its old numbers on restore. For a new SDMA
 * queue q->sdma_id says which engine is wanted, U32_MAX for any.
 */
int sim_queue_insert(struct sim_process *p, struct sim_queue *q, bool restore)
{
	int ret = sim_slot_take(p, q, restore);

	if (ret)
		return ret;
	ret = sim_queue_hw_take(q, restore);
	if (ret)
		goto err_slot;
	ret = sim_worker_start(p);
	if (ret) {
		sim_queue_hw_release(q);
		goto err_slot;
	}
	sim_run_lock(p);
	list_add_tail(&q->link, &p->queues);
	mutex_unlock(&p->run_lock);
	q->pdd->nr_queues++;
	sim_procfs_add_queue(p, q);
	atomic64_inc(&sim_count.queues);
	sim_worker_kick(p);
	return 0;

err_slot:
	clear_bit(q->id, p->queue_slots);
	return ret;
}

void sim_queue_remove(struct sim_process *p, struct sim_queue *q)
{
	sim_procfs_remove_queue(q);
	sim_run_lock(p);
	list_del(&q->link);
	mutex_unlock(&p->run_lock);
	clear_bit(q->id, p->queue_slots);
	sim_queue_hw_release(q);
	sim_queue_buffers_put(q);
	q->pdd->nr_queues--;
	atomic64_dec(&sim_count.queues);
	kfree(q);
}

void sim_queues_destroy(struct sim_process *p)
{
	struct sim_queue *q, *next;

	list_for_each_entry_safe(q, next, &p->queues, link)
		sim_queue_remove(p, q);
}

struct sim_queue *sim_queue_find(struct sim_process *p, u32 id)
{
	struct sim_queue *q;

	list_for_each_entry(q, &p->queues, link)
		if (q->id == id)
			return q;
	return NULL;
}

static int sim_queue_check(u64 ring, u64 ring_size, u32 percent, u32 priority)
{
	if ((percent & 0xff) > KFD_MAX_QUEUE_PERCENTAGE || priority > KFD_MAX_QUEUE_PRIORITY)
		return -EINVAL;
	if (ring && !access_ok((void __user *)ring, sizeof(u64)))
		return -EFAULT;
	/* One that is too small is made larger: kfd_chardev.c:set_queue_properties_from_user @ 6.12.117. */
	if (ring_size && !is_power_of_2(ring_size))
		return -EINVAL;
	return 0;
}

static int sim_queue_set_type(struct sim_queue *q, struct kfd_ioctl_create_queue_args *args)
{
	q->format = SIM_FORMAT_PM4;
	q->sdma_id = U32_MAX;
	switch (args->queue_type) {
	case KFD_IOC_QUEUE_TYPE_COMPUTE:
		q->type = SIM_QUEUE_COMPUTE;
		return 0;
	case KFD_IOC_QUEUE_TYPE_COMPUTE_AQL:
		q->type = SIM_QUEUE_COMPUTE;
		q->format = SIM_FORMAT_AQL;
		return 0;
	case KFD_IOC_QUEUE_TYPE_SDMA:
		q->type = SIM_QUEUE_SDMA;
		return 0;
	case KFD_IOC_QUEUE_TYPE_SDMA_XGMI:
		q->type = SIM_QUEUE_SDMA_XGMI;
		return 0;
	case KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID:
		/* Of which of the two kinds it becomes is known with the GPU. */
		q->type = SIM_QUEUE_SDMA;
		q->sdma_id = args->sdma_engine_id;
		return 0;
	default:
		return -ENOTSUPP;
	}
}

static bool sim_in_user_space(u64 addr, u64 size)
{
	return !addr || access_ok((void __user *)addr, size);
}

static int sim_queue_fill(struct sim_queue *q, struct kfd_ioctl_create_queue_args *args)
{
	int ret = sim_queue_check(args->ring_base_address, args->ring_size,
				  args->queue_percentage, args->queue_priority);

	if (ret)
		return ret;
	if (!sim_in_user_space(args->read_pointer_address, sizeof(u32)) ||
	    !sim_in_user_space(args->write_pointer_address, sizeof(u32)) ||
	    !sim_in_user_space(args->eop_buffer_address, sizeof(u32)) ||
	    !sim_in_user_space(args->ctx_save_restore_address, sizeof(u32)))
		return -EFAULT;
	if (args->ctl_stack_size > SIM_MAX_CTL_STACK)
		return -EINVAL;
	q->ring = args->ring_base_address;
	q->ring_size = max_t(u64, args->ring_size, KFD_MIN_QUEUE_RING_SIZE);
	q->rptr = args->read_pointer_address;
	q->wptr = args->write_pointer_address;
	q->eop = args->eop_buffer_address;
	q->eop_size = args->eop_buffer_size;
	q->cwsr = args->ctx_save_restore_address;
	q->cwsr_size = args->ctx_save_restore_size;
	q->ctl_stack_size = args->ctl_stack_size;
	q->percent = args->queue_percentage & 0xff;
	q->priority = args->queue_priority;
	q->idle = true;
	return sim_queue_set_type(q, args);
}

int sim_kfd_create_queue(struct sim_process *p, void *data)
{
	struct kfd_ioctl_create_queue_args *args = data;
	struct sim_queue *q = kzalloc(sizeof(*q), GFP_KERNEL);
	struct sim_pdd *pdd;
	int ret;

	if (!q)
		return -ENOMEM;
	ret = sim_queue_fill(q, args);
	mutex_lock(&p->lock);
	if (ret)
		goto out;
	pdd = sim_pdd_with_vm(p, args->gpu_id);
	q->pdd = pdd;
	/* Unlike those that allocate this ioctl gives another errno where there is no VM. */
	if (IS_ERR(pdd))
		ret = PTR_ERR(pdd) == -ENODEV ? -ESRCH : PTR_ERR(pdd);
	else if (q->sdma_id != U32_MAX && q->sdma_id >= sim_num_engines(pdd->gpu))
		ret = -EINVAL;
	else if (p->kernel->create_acquires)
		ret = sim_queue_buffers_get(q);
	if (!ret) {
		ret = sim_queue_insert(p, q, false);
		if (ret)
			sim_queue_buffers_put(q);
	}
	if (!ret) {
		args->queue_id = q->id;
		args->doorbell_offset = SIM_MMAP_TYPE_DOORBELL | SIM_MMAP_GPU_ID(args->gpu_id) |
					q->doorbell_id * 8;
	}
out:
	mutex_unlock(&p->lock);
	if (ret)
		kfree(q);
	return ret;
}

int sim_kfd_destroy_queue(struct sim_process *p, void *data)
{
	struct kfd_ioctl_destroy_queue_args *args = data;
	struct sim_queue *q;

	mutex_lock(&p->lock);
	q = sim_queue_find(p, args->queue_id);
	if (q)
		sim_queue_remove(p, q);
	mutex_unlock(&p->lock);
	return q ? 0 : -EINVAL;
}

int sim_kfd_update_queue(struct sim_process *p, void *data)
{
	struct kfd_ioctl_update_queue_args *args = data;
	u64 size = max_t(u64, args->ring_size, KFD_MIN_QUEUE_RING_SIZE);
	struct sim_queue *q;
	int ret = sim_queue_check(args->ring_base_address, args->ring_size,
				  args->queue_percentage, args->queue_priority);

	if (ret)
		return ret;
	mutex_lock(&p->lock);
	q = sim_queue_find(p, args->queue_id);
	ret = q ? sim_queue_ring_change(q, args->ring_base_address, size) : -EFAULT;
	if (!ret) {
		sim_run_lock(p);
		q->ring = args->ring_base_address;
		q->ring_size = size;
		q->percent = args->queue_percentage & 0xff;
		q->priority = args->queue_priority;
		mutex_unlock(&p->run_lock);
		sim_worker_kick(p);
	}
	mutex_unlock(&p->lock);
	return ret;
}

/* No shader runs, so a mask has no effect: only the queue is checked. */
int sim_kfd_set_cu_mask(struct sim_process *p, void *data)
{
	struct kfd_ioctl_set_cu_mask_args *args = data;
	u32 bits = min(args->num_cu_mask, SIM_MAX_CU_MASK_BITS), *mask;
	struct sim_queue *q;

	if (!args->num_cu_mask || args->num_cu_mask % 32)
		return -EINVAL;
	mask = memdup_user(u64_to_user_ptr(args->cu_mask_ptr), bits / 8);
	if (IS_ERR(mask))
		return PTR_ERR(mask);
	kfree(mask);
	mutex_lock(&p->lock);
	q = sim_queue_find(p, args->queue_id);
	mutex_unlock(&p->lock);
	return q ? 0 : -EFAULT;
}
