// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /sys/class/kfd/kfd/proc/PID for each KFD process (PID of the leader in the initial namespace), as
 * kfd_process.c:kfd_create_process @ 6.12.117 makes it: pasid, the folder queues (queue_sysfs.c), and for each of its
 * GPUs vram_GPU (bytes), sdma_GPU (us), stats_GPU/evicted_ms.
 */
#include <linux/device.h>
#include <linux/jiffies.h>
#include <linux/sysfs.h>

#include "kfdsim.h"

struct sim_proc_gpu {
	struct sim_pdd *pdd;
	struct kobj_attribute vram, sdma, evicted;
	struct kobject *stats;
	char vram_name[16], sdma_name[16], stats_name[16];
};

struct sim_proc_dir {
	struct kobject kobj;
	struct sim_process *p;
	struct kobj_attribute pasid;
	struct sim_proc_gpu gpus[SIM_MAX_GPUS];
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
	struct sim_proc_gpu *g = container_of(attr, struct sim_proc_gpu, vram);

	return sysfs_emit(buf, "%llu\n", READ_ONCE(g->pdd->vram_usage));
}

/*
 * Time that its SDMA queues were busy. The firmware counts it in memory of the user, behind the read pointer
 * (kfd_device_queue_manager.h:read_sdma_queue_counter @ 6.12.117); nothing is written there here.
 */
static ssize_t sim_sdma_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct sim_proc_gpu *g = container_of(attr, struct sim_proc_gpu, sdma);

	return sysfs_emit(buf, "%llu\n", (u64)atomic64_read(&g->pdd->sdma_ns) / NSEC_PER_USEC);
}

/* An eviction counts once it is over: kfd_device_queue_manager.c:restore_process_queues_cpsch @ 6.12.117. */
static ssize_t sim_evicted_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct sim_proc_gpu *g = container_of(attr, struct sim_proc_gpu, evicted);

	return sysfs_emit(buf, "%llu\n", jiffies64_to_msecs(atomic64_read(&g->pdd->evicted_jiffies)));
}

static void sim_attr(struct kobj_attribute *attr, const char *name,
		     ssize_t (*show)(struct kobject *, struct kobj_attribute *, char *))
{
	sysfs_attr_init(&attr->attr);
	attr->attr.name = name;
	attr->attr.mode = 0444;
	attr->show = show;
}

static int sim_proc_add_gpu(struct sim_proc_dir *dir, struct sim_proc_gpu *g, struct sim_pdd *pdd)
{
	int ret;

	g->pdd = pdd;
	snprintf(g->vram_name, sizeof(g->vram_name), "vram_%u", pdd->gpu->gpu_id);
	snprintf(g->sdma_name, sizeof(g->sdma_name), "sdma_%u", pdd->gpu->gpu_id);
	snprintf(g->stats_name, sizeof(g->stats_name), "stats_%u", pdd->gpu->gpu_id);
	sim_attr(&g->vram, g->vram_name, sim_vram_show);
	sim_attr(&g->sdma, g->sdma_name, sim_sdma_show);
	sim_attr(&g->evicted, "evicted_ms", sim_evicted_show);
	ret = sysfs_create_file(&dir->kobj, &g->vram.attr) ?: sysfs_create_file(&dir->kobj, &g->sdma.attr);
	if (ret)
		return ret;
	g->stats = kobject_create_and_add(g->stats_name, &dir->kobj);
	return g->stats ? sysfs_create_file(g->stats, &g->evicted.attr) : -ENOMEM;
}

/*
 * Is there a folder of this name? It is that of a dead process with the same PID, of which somebody holds a file. Older
 * kernels then use memory that they have freed: kfd_process.c:kfd_create_process @ 6.12.117.
 */
static bool sim_proc_dir_taken(struct sim_process *p)
{
	struct kernfs_node *node;
	char name[12];

	snprintf(name, sizeof(name), "%d", task_pid_nr(p->lead));
	node = kernfs_find_and_get(proc_dir->sd, name);
	if (!node)
		return false;
	kernfs_put(node);
	pr_warn_ratelimited("process %s has no folder: that of another one is still there\n", name);
	if (p->kernel->uses_freed_folder)
		atomic64_inc(&sim_count.freed_folders);
	return true;
}

/* A process works without its directory too, so failures are only logged. */
void sim_procfs_add(struct sim_process *p)
{
	struct sim_proc_dir *dir = kzalloc(sizeof(*dir), GFP_KERNEL);
	int ret = -ENOMEM;
	unsigned int i;

	if (!dir)
		goto err;
	if (sim_proc_dir_taken(p)) {
		kfree(dir);
		return;
	}
	dir->p = p;
	sim_attr(&dir->pasid, "pasid", sim_pasid_show);
	ret = kobject_init_and_add(&dir->kobj, &sim_proc_dir_type, proc_dir, "%d",
				   task_pid_nr(p->lead));
	if (ret) {
		kobject_put(&dir->kobj);
		goto err;
	}
	p->sysfs = &dir->kobj;
	ret = sysfs_create_file(p->sysfs, &dir->pasid.attr);
	if (!ret) {
		p->queues_dir = kobject_create_and_add("queues", p->sysfs);
		ret = p->queues_dir ? 0 : -ENOMEM;
	}
	for (i = 0; i < p->nr_pdds && !ret; i++)
		ret = sim_proc_add_gpu(dir, &dir->gpus[i], &p->pdds[i]);
	if (!ret)
		return;
err:
	pr_warn("no complete sysfs directory for process %d: %d\n", task_pid_nr(p->lead), ret);
}

/* When the last file goes, which others may have of a dead process: kfd_process.c:kfd_process_wq_release @ 6.12.117. */
void sim_procfs_remove(struct sim_process *p)
{
	struct sim_proc_dir *dir;
	unsigned int i;

	if (!p->sysfs)
		return;
	dir = container_of(p->sysfs, struct sim_proc_dir, kobj);
	if (p->queues_dir) {
		kobject_del(p->queues_dir);
		kobject_put(p->queues_dir);
	}
	for (i = 0; i < p->nr_pdds; i++) {
		if (dir->gpus[i].stats) {
			kobject_del(dir->gpus[i].stats);
			kobject_put(dir->gpus[i].stats);
		}
	}
	kobject_del(p->sysfs);
	kobject_put(p->sysfs);
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
