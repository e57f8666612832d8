// SPDX-License-Identifier: GPL-2.0 OR MIT
/* /sys/class/kfd/kfd/topology: the tree itself. What is in it is in topology_nodes.c. */
#include <linux/device.h>
#include <linux/sysfs.h>

#include "gpus/topology.h"

struct sim_topology_dir {
	struct list_head link;
	struct kobject *kobj;
};

struct sim_topology_file {
	struct list_head link;
	struct kobj_attribute attr;
	struct kobject *dir;
	struct sim_gpu *gpu;		/* hidden from those who may not use it; NULL: from nobody */
	char *text;
	u32 (*capability)(void);	/* a last line, which depends on the kernel; NULL: there is none */
};

static LIST_HEAD(dirs);			/* children before their parents */
static LIST_HEAD(files);
static int topology_error;

static ssize_t sim_topology_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct sim_topology_file *f = container_of(attr, struct sim_topology_file, attr);

	/* The directories of a hidden GPU are there, its files open, only reading fails. */
	if (f->gpu && !sim_gpu_visible(f->gpu))
		return -EPERM;
	return f->capability ? sysfs_emit(buf, "%scapability %u\n", f->text, f->capability()) :
			       sysfs_emit(buf, "%s", f->text);
}

/* Errors are collected in topology_error: the tree is all or nothing. */
struct kobject *sim_topology_dir(struct kobject *parent, const char *name)
{
	struct sim_topology_dir *dir;

	if (topology_error)
		return NULL;
	dir = kzalloc(sizeof(*dir), GFP_KERNEL);
	if (dir)
		dir->kobj = kobject_create_and_add(name, parent);
	if (!dir || !dir->kobj) {
		kfree(dir);
		topology_error = -ENOMEM;
		return NULL;
	}
	list_add(&dir->link, &dirs);
	return dir->kobj;
}

/* name must be a constant; gpu: of which the file tells, or NULL. NULL if there is none. */
struct sim_topology_file *sim_topology_file(struct kobject *dir, struct sim_gpu *gpu, const char *name,
					    const char *fmt, ...)
{
	struct sim_topology_file *f;
	va_list ap;

	if (topology_error)
		return NULL;
	topology_error = -ENOMEM;
	f = kzalloc(sizeof(*f), GFP_KERNEL);
	if (!f)
		return NULL;
	va_start(ap, fmt);
	f->text = kvasprintf(GFP_KERNEL, fmt, ap);
	va_end(ap);
	if (!f->text) {
		kfree(f);
		return NULL;
	}
	sysfs_attr_init(&f->attr.attr);
	f->attr.attr.name = name;
	f->attr.attr.mode = 0444;
	f->attr.show = sim_topology_show;
	f->dir = dir;
	f->gpu = gpu;
	topology_error = sysfs_create_file(dir, &f->attr.attr);
	if (topology_error) {
		kfree(f->text);
		kfree(f);
		return NULL;
	}
	list_add(&f->link, &files);
	return f;
}

/* The file ends with a line "capability", of what a kernel has now. */
void sim_topology_capability(struct sim_topology_file *f, u32 (*capability)(void))
{
	if (f)
		f->capability = capability;
}

int sim_topology_init(struct device *kfd)
{
	struct kobject *top = sim_topology_dir(&kfd->kobj, "topology");

	/* It counts up with each GPU that is added: kfd_topology.c:kfd_topology_add_device @ 6.12.117. */
	sim_topology_file(top, NULL, "generation_id", "%u\n", 1 + sim.nr_gpus);
	sim_topology_file(top, NULL, "system_properties",
			  "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
	sim_topology_nodes(sim_topology_dir(top, "nodes"));
	if (topology_error)
		sim_topology_fini();
	return topology_error;
}

void sim_topology_fini(void)
{
	struct sim_topology_file *f, *next_file;
	struct sim_topology_dir *dir, *next_dir;

	list_for_each_entry_safe(f, next_file, &files, link) {
		sysfs_remove_file(f->dir, &f->attr.attr);
		kfree(f->text);
		kfree(f);
	}
	list_for_each_entry_safe(dir, next_dir, &dirs, link) {
		kobject_del(dir->kobj);
		kobject_put(dir->kobj);
		kfree(dir);
	}
}
