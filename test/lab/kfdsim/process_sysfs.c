// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /sys/class/kfd/kfd/proc/PID for each KFD process (PID of the leader in the initial
 * namespace): pasid, vram_GPU in bytes, stats_GPU/evicted_ms.
 */
#include <linux/device.h>
#include <linux/sysfs.h>

#include "kfdsim.h"

struct sim_proc_dir {
	struct kobject kobj;
	struct sim_process *p;
	struct kobj_attribute pasid, vram, evicted;
	char vram_name[16], stats_name[16];
};

static struct kobject *proc_dir;

static void sim_proc_dir_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct sim_proc_dir, kobj));
}

static const struct kobj_type sim_proc_dir_type = {
	.release = sim_proc_dir_release,
	.sysfs_ops = &kobj_sysfs_ops,
};

/* Attributes are removed before the process goes, so dir->p is good in all of these. */
static ssize_t sim_pasid_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct sim_proc_dir *dir = container_of(attr, struct sim_proc_dir, pasid);

	return sysfs_emit(buf, "%d\n", 0x8000 | (task_pid_nr(dir->p->lead) & 0x7fff));
}

static ssize_t sim_vram_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct sim_proc_dir *dir = container_of(attr, struct sim_proc_dir, vram);

	return sysfs_emit(buf, "%llu\n", READ_ONCE(dir->p->vram_usage));
}

static ssize_t sim_evicted_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct sim_proc_dir *dir = container_of(attr, struct sim_proc_dir, evicted);

	/* As in the real driver an eviction counts once it is over. */
	return sysfs_emit(buf, "%llu\n",
			  (u64)atomic64_read(&dir->p->evicted_ns) / NSEC_PER_MSEC);
}

static void sim_attr(struct kobj_attribute *attr, const char *name,
		     ssize_t (*show)(struct kobject *, struct kobj_attribute *, char *))
{
	sysfs_attr_init(&attr->attr);
	attr->attr.name = name;
	attr->attr.mode = 0444;
	attr->show = show;
}

/* A process works without its directory too, so failures are only logged. */
void sim_procfs_add(struct sim_process *p)
{
	struct sim_proc_dir *dir = kzalloc(sizeof(*dir), GFP_KERNEL);
	int ret = -ENOMEM;

	if (!dir)
		goto err;
	dir->p = p;
	snprintf(dir->vram_name, sizeof(dir->vram_name), "vram_%u", sim.gpu_id);
	snprintf(dir->stats_name, sizeof(dir->stats_name), "stats_%u", sim.gpu_id);
	sim_attr(&dir->pasid, "pasid", sim_pasid_show);
	sim_attr(&dir->vram, dir->vram_name, sim_vram_show);
	sim_attr(&dir->evicted, "evicted_ms", sim_evicted_show);
	ret = kobject_init_and_add(&dir->kobj, &sim_proc_dir_type, proc_dir, "%d",
				   task_pid_nr(p->lead));
	if (ret) {
		kobject_put(&dir->kobj);
		goto err;
	}
	p->sysfs = &dir->kobj;
	p->sysfs_stats = kobject_create_and_add(dir->stats_name, p->sysfs);
	ret = sysfs_create_file(p->sysfs, &dir->pasid.attr) ?:
	      sysfs_create_file(p->sysfs, &dir->vram.attr);
	if (!ret && p->sysfs_stats)
		ret = sysfs_create_file(p->sysfs_stats, &dir->evicted.attr);
	if (!ret)
		return;
err:
	pr_warn("no complete sysfs directory for process %d: %d\n", task_pid_nr(p->lead), ret);
}

/*
 * When the mm goes, not when the last file does: a restored process may have the same
 * PID while somebody still holds a descriptor of the old one.
 */
void sim_procfs_remove(struct sim_process *p)
{
	if (p->sysfs_stats) {
		kobject_del(p->sysfs_stats);
		kobject_put(p->sysfs_stats);
	}
	if (p->sysfs) {
		kobject_del(p->sysfs);
		kobject_put(p->sysfs);
	}
}

int sim_procfs_init(struct device *kfd)
{
	proc_dir = kobject_create_and_add("proc", &kfd->kobj);
	return proc_dir ? 0 : -ENOMEM;
}

void sim_procfs_fini(void)
{
	kobject_put(proc_dir);
}
