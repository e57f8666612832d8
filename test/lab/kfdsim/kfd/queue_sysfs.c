// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /sys/class/kfd/kfd/proc/PID/queues/ID for each queue of a process: its size (bytes of the ring), type and gpuid (of
 * the topology), without a newline (kfd_process.c:kfd_procfs_queue_show @ 6.12.117).
 */
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "kfdsim.h"

struct sim_proc_queue {
	struct kobject kobj;
	const struct sim_queue *q;	/* good while there are files: they go first */
};

static void sim_proc_queue_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct sim_proc_queue, kobj));
}

static const struct sim_queue *sim_proc_queue(struct kobject *kobj)
{
	return container_of(kobj, struct sim_proc_queue, kobj)->q;
}

static ssize_t size_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu", READ_ONCE(sim_proc_queue(kobj)->ring_size));
}

static ssize_t type_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u", sim_proc_queue(kobj)->type);
}

static ssize_t gpuid_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u", sim_proc_queue(kobj)->pdd->gpu->gpu_id);
}

static struct kobj_attribute sim_proc_queue_size = __ATTR_RO(size);
static struct kobj_attribute sim_proc_queue_type = __ATTR_RO(type);
static struct kobj_attribute sim_proc_queue_gpuid = __ATTR_RO(gpuid);

static struct attribute *sim_proc_queue_attrs[] = {
	&sim_proc_queue_size.attr,
	&sim_proc_queue_type.attr,
	&sim_proc_queue_gpuid.attr,
	NULL
};
ATTRIBUTE_GROUPS(sim_proc_queue);

static const struct kobj_type sim_proc_queue_kobj = {
	.release = sim_proc_queue_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = sim_proc_queue_groups,
};

/* A queue works without its folder, too. Needs p->lock. */
void sim_procfs_add_queue(struct sim_process *p, struct sim_queue *q)
{
	struct sim_proc_queue *dir;

	if (!p->queues_dir)
		return;
	dir = kzalloc(sizeof(*dir), GFP_KERNEL);
	if (!dir)
		return;
	dir->q = q;
	if (kobject_init_and_add(&dir->kobj, &sim_proc_queue_kobj, p->queues_dir, "%u", q->id)) {
		pr_warn("no sysfs directory for queue %u of process %d\n", q->id, task_pid_nr(p->lead));
		kobject_put(&dir->kobj);
		return;
	}
	q->sysfs = &dir->kobj;
}

/* Before anything of q goes. */
void sim_procfs_remove_queue(struct sim_queue *q)
{
	if (!q->sysfs)
		return;
	kobject_del(q->sysfs);
	kobject_put(q->sysfs);
	q->sysfs = NULL;
}
