// SPDX-License-Identifier: GPL-2.0 OR MIT
/* CRIU_OP PROCESS_INFO and CHECKPOINT: the state of one process as one blob. BOs are in criu_dump_bos.c. */
#include <linux/pid_namespace.h>
#include <linux/uaccess.h>

#include "criu/criu_dump.h"
#include "kfdsim.h"

/* p->lock alone does not keep events from being destroyed, nor SVM ranges from being unmapped. */
static void sim_dump_lock(struct sim_process *p)
{
	mutex_lock(&p->event_lock);
	mutex_lock(&p->svm.lock);
}

static void sim_dump_unlock(struct sim_process *p)
{
	mutex_unlock(&p->svm.lock);
	mutex_unlock(&p->event_lock);
}

/* Needs p->lock and sim_dump_lock(). */
static void sim_dump_count(struct sim_dump *d, struct sim_process *p)
{
	struct sim_event *ev;
	int id;

	*d = (struct sim_dump){ .p = p };
	d->nr_bos = sim_dump_count_bos(p);
	d->size = sim_dump_objects_offset(d);
	d->size += sim_criu_queues_size(p, &d->nr_objects);
	idr_for_each_entry(&p->events, ev, id) {
		d->nr_objects++;
		d->size += sizeof(struct sim_criu_event);
	}
	d->size += sim_criu_svm_size(p, &d->nr_objects);
}

/*
 * Stop the queues. One that cannot be stopped is counted as evicted (kfd_device_queue_manager.c:
 * evict_process_queues_cpsch @ 7.3.4). Kernels that pause every time take that back, and the pause before it
 * (kfd_chardev.c:criu_process_info @ 6.12.107, 7.2.13); the others leave it so, and nothing takes it back.
 */
static int sim_criu_pause(struct sim_process *p)
{
	int ret;

	if (p->paused)
		atomic64_inc(&sim_count.paused_again);
	/* UNPAUSE takes one eviction back, whatever this has made of it. */
	if (p->paused && !p->kernel->pauses_every_time)
		return 0;
	sim_process_evict(p);
	ret = sim_fault_criu(SIM_FAULT_PAUSE);
	if (ret && p->kernel->pauses_every_time) {
		sim_process_unevict(p);
		p->paused = false;
	} else if (!ret) {
		p->paused = true;
	}
	return ret;
}

int sim_criu_process_info(struct sim_process *p, struct kfd_ioctl_criu_args *args)
{
	struct pid_namespace *ns;
	struct sim_dump d;
	int ret;

	mutex_lock(&p->lock);
	ret = p->dead ? -ESRCH : !p->nr_pdds ? -ENODEV : sim_criu_pause(p);
	if (ret) {
		mutex_unlock(&p->lock);
		return ret;
	}
	sim_dump_lock(p);
	sim_dump_count(&d, p);
	sim_dump_unlock(p);
	ns = task_active_pid_ns(p->lead);
	args->pid = ns ? task_pid_nr_ns(p->lead, ns) : 0;
	args->num_devices = p->nr_pdds;
	args->num_bos = d.nr_bos;
	args->num_objects = d.nr_objects;
	args->priv_data_size = d.size;
	mutex_unlock(&p->lock);
	return 0;
}

static u8 *sim_dump_events(struct sim_dump *d, u8 *at)
{
	struct sim_process *p = d->p;
	bool first = true;
	struct sim_event *ev;
	int id;

	idr_for_each_entry(&p->events, ev, id) {
		struct sim_criu_event *priv = (struct sim_criu_event *)at;

		priv->object_type = SIM_CRIU_EVENT;
		if (first && p->event_bo)
			priv->user_handle = p->event_handle;
		first = false;
		priv->event_id = ev->id;
		priv->auto_reset = ev->auto_reset;
		priv->type = ev->type;
		priv->signaled = ev->signaled;
		if (ev->type == KFD_IOC_EVENT_MEMORY)
			memcpy(priv->data, &ev->memory, sizeof(ev->memory));
		else if (ev->type == KFD_IOC_EVENT_HW_EXCEPTION)
			memcpy(priv->data, &ev->hw, sizeof(ev->hw));
		at += sizeof(*priv);
	}
	return at;
}

/* -EINVAL if there is another number of objects than was announced. Needs p->lock. */
static int sim_dump_objects(struct sim_dump *d)
{
	struct sim_criu_process *process = (struct sim_criu_process *)d->blob;
	struct sim_process *p = d->p;
	struct sim_dump now;
	u8 *at;
	int ret = -EINVAL;

	process->version = SIM_CRIU_VERSION;
	process->xnack_mode = p->xnack;
	sim_dump_lock(p);
	sim_dump_count(&now, p);
	if (now.nr_objects == d->nr_objects && now.size == d->size) {
		at = d->blob + sim_dump_objects_offset(d);
		at = sim_criu_dump_queues(p, at);
		at = sim_dump_events(d, at);
		at = sim_criu_dump_svm(p, at);
		ret = WARN_ON_ONCE(at != d->blob + d->size) ? -EINVAL : 0;
	}
	sim_dump_unlock(p);
	return ret;
}

static int sim_dump_write_devices(struct sim_dump *d, struct kfd_ioctl_criu_args *args)
{
	struct kfd_criu_device_bucket __user *devices = u64_to_user_ptr(args->devices);
	struct sim_pdd *pdd;
	u32 i;

	/* Whole, with zeros for drm_fd: kfd_chardev.c:criu_checkpoint_devices @ 6.12.117. */
	for (i = 0; i < d->p->nr_pdds; i++) {
		struct kfd_criu_device_bucket bucket = {};

		pdd = &d->p->pdds[i];
		bucket.user_gpu_id = pdd->user_gpu_id;
		bucket.actual_gpu_id = pdd->gpu->gpu_id;
		if (copy_to_user(&devices[i], &bucket, sizeof(bucket)))
			return -EFAULT;
	}
	return 0;
}

/* Everything before the BOs, in the order of the real driver: the first error is the one seen. */
static int sim_dump_write_objects(struct sim_dump *d, struct kfd_ioctl_criu_args *args)
{
	int ret = sim_dump_put(d, args, 0, sizeof(struct sim_criu_process));

	if (!ret)
		ret = sim_dump_write_devices(d, args);
	if (!ret)
		ret = sim_criu_queues_check(d->p);
	if (!ret)
		ret = sim_dump_put(d, args, sim_dump_objects_offset(d), d->size);
	return ret;
}

static int sim_dump_run(struct sim_dump *d, struct kfd_ioctl_criu_args *args)
{
	int ret = -ENOMEM;

	/* One more than needed: no BO at all is a valid process. */
	d->blob = kvzalloc(d->size, GFP_KERNEL);
	d->buckets = kvcalloc(d->nr_bos + 1, sizeof(*d->buckets), GFP_KERNEL);
	d->dmabufs = kvcalloc(d->nr_bos + 1, sizeof(*d->dmabufs), GFP_KERNEL);
	if (d->blob && d->buckets && d->dmabufs) {
		ret = sim_dump_objects(d);
		if (!ret)
			ret = sim_dump_write_objects(d, args);
		if (!ret)
			ret = sim_dump_bos(d);
		if (!ret)
			ret = sim_dump_write_bos(d, args);
		if (ret)
			sim_dump_unwind(d);
		else
			sim_dump_install(d);
	}
	kvfree(d->dmabufs);
	kvfree(d->buckets);
	kvfree(d->blob);
	return ret;
}

int sim_criu_checkpoint(struct sim_process *p, struct kfd_ioctl_criu_args *args)
{
	struct sim_dump d;
	int ret = -EINVAL;

	/* Even with num_bos == 0 all three pointers must be there. */
	if (!args->devices || !args->bos || !args->priv_data)
		return -EINVAL;
	mutex_lock(&p->lock);
	if (p->dead) {
		ret = -ESRCH;
	} else if (!p->nr_pdds) {
		ret = -ENODEV;
	} else if (p->paused) {
		sim_dump_lock(p);
		sim_dump_count(&d, p);
		sim_dump_unlock(p);
		if (args->num_devices == p->nr_pdds && args->num_bos == d.nr_bos &&
		    args->num_objects == d.nr_objects && args->priv_data_size == d.size)
			ret = sim_dump_run(&d, args);
	}
	mutex_unlock(&p->lock);
	return ret;
}
