// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Interfaces to GEM handles that came after 6.12, each absent, disabled or working:
 * absent, the kernel does not know the number (-EINVAL before the argument is read);
 * disabled, it knows it and refuses (-EINVAL after that, so that a bad pointer is -EFAULT).
 */
#include <linux/compat.h>
#include <linux/uaccess.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_prime.h>

#include "kfdsim.h"
#include "drm/later_uapi.h"

static_assert(sizeof(struct sim_gem_list_handles) == 16);
static_assert(sizeof(struct sim_gem_handle_entry) == 40);
static_assert(sizeof(struct sim_gem_op) == 24);
static_assert(sizeof(struct sim_gem_vm_entry) == 32);
static_assert(sizeof(struct sim_gem_change_handle) == 8);

enum sim_interface {
	SIM_AS_KERNEL,			/* as the kernel has it that is simulated */
	SIM_ABSENT,
	SIM_DISABLED,
	SIM_WORKING,
};

static const char *const sim_interface_names[] = { "kernel", "absent", "disabled", "working" };

static int sim_interface_set(const char *val, const struct kernel_param *kp)
{
	int i = sysfs_match_string(sim_interface_names, val);

	if (i < 0)
		return i;
	WRITE_ONCE(*(enum sim_interface *)kp->arg, i);
	return 0;
}

static int sim_interface_get(char *buffer, const struct kernel_param *kp)
{
	enum sim_interface value = READ_ONCE(*(enum sim_interface *)kp->arg);

	return scnprintf(buffer, PAGE_SIZE, "%s\n", sim_interface_names[value]);
}

static const struct kernel_param_ops sim_interface_ops = {
	.set = sim_interface_set,
	.get = sim_interface_get,
};

static enum sim_interface gem_list_handles;
module_param_cb(gem_list_handles, &sim_interface_ops, &gem_list_handles, 0644);
MODULE_PARM_DESC(gem_list_handles, "GEM_LIST_HANDLES: kernel (default), absent, disabled or working");

static enum sim_interface gem_mapping_info;
module_param_cb(gem_mapping_info, &sim_interface_ops, &gem_mapping_info, 0644);
MODULE_PARM_DESC(gem_mapping_info,
		 "GEM_OP GET_MAPPING_INFO: kernel (default), absent, disabled or working");

static enum sim_interface gem_change_handle;
module_param_cb(gem_change_handle, &sim_interface_ops, &gem_change_handle, 0644);
MODULE_PARM_DESC(gem_change_handle, "GEM_CHANGE_HANDLE: kernel (default), absent, disabled or working");

/* What it is now; later: what kernels have that list handles. */
static enum sim_interface sim_interface(const enum sim_interface *set, enum sim_interface later)
{
	enum sim_interface now = READ_ONCE(*set);

	if (now != SIM_AS_KERNEL)
		return now;
	return sim_behaves_as()->lists_handles ? later : SIM_ABSENT;
}

/* The core of 7.x has the call, switched off: drm_ioctl.c:drm_ioctls @ 7.3.4. */
static enum sim_interface sim_change_handle_is(void)
{
	return sim_interface(&gem_change_handle, SIM_DISABLED);
}

static u32 sim_count_handles(struct drm_file *file)
{
	struct drm_gem_object *obj;
	u32 n = 0;
	int id;

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id)
		n++;
	spin_unlock(&file->table_lock);
	return n;
}

/* Returns how many were written, -EAGAIN if there are more than max by now. */
static int sim_read_handles(struct drm_file *file, struct sim_gem_handle_entry *entries, u32 max)
{
	struct drm_gem_object *obj;
	struct sim_bo *bo;
	int id, n = 0;

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id) {
		if (n == max) {
			n = -EAGAIN;
			break;
		}
		bo = to_sim_bo(obj);
		entries[n].gem_handle = id;
		entries[n].flags = obj->import_attach ? SIM_GEM_HANDLE_IMPORT : 0;
		entries[n].size = obj->size;
		entries[n].preferred_domains = bo->domains;
		entries[n].alloc_flags = bo->create_flags & SIM_CREATE_SETTABLE;
		entries[n].alignment = max_t(u64, bo->alignment, PAGE_SIZE);
		n++;
	}
	spin_unlock(&file->table_lock);
	return n;
}

int sim_gem_list_handles_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_gem_list_handles *args = data;
	struct sim_gem_handle_entry *entries;
	u32 n = sim_count_handles(file);
	int ret;

	if (sim_interface(&gem_list_handles, SIM_WORKING) != SIM_WORKING || args->padding)
		return -EINVAL;
	if (!n || n > args->num_entries) {
		args->num_entries = n;
		return 0;
	}
	entries = kvcalloc(n, sizeof(*entries), GFP_KERNEL);
	if (!entries)
		return -ENOMEM;
	ret = sim_read_handles(file, entries, n);
	if (ret >= 0) {
		args->num_entries = ret;
		ret = copy_to_user(u64_to_user_ptr(args->entries), entries,
				   ret * sizeof(*entries)) ? -EFAULT : 0;
	}
	kvfree(entries);
	return ret;
}

/* Where bo is mapped in the address space of file; nothing is copied that does not fit. */
int sim_gem_get_mapping_info(struct drm_file *file, struct sim_bo *bo, struct sim_gem_op *args)
{
	struct sim_gem_vm_entry *entries = NULL;
	u32 room = 0, n;
	int ret = 0;

	if (sim_interface(&gem_mapping_info, SIM_WORKING) != SIM_WORKING || args->padding)
		return -EINVAL;
	/* Again when mappings were added between counting and reading. */
	while ((n = sim_vm_list_maps(file->driver_priv, bo, entries, room)) > room) {
		if (n > args->num_entries)
			break;
		kvfree(entries);
		entries = kvcalloc(n, sizeof(*entries), GFP_KERNEL);
		if (!entries)
			return -ENOMEM;
		room = n;
	}
	if (n && n <= args->num_entries &&
	    copy_to_user(u64_to_user_ptr(args->value), entries, n * sizeof(*entries)))
		ret = -EFAULT;
	args->num_entries = n;
	kvfree(entries);
	return ret;
}

/* A second handle, of a wanted number, for an object that has one in this file already. */
static int sim_handle_add(struct drm_file *file, struct drm_gem_object *obj, u32 handle)
{
	struct drm_device *dev = obj->dev;
	int ret = sim_vm_attach(file->driver_priv, to_sim_bo(obj));

	if (ret)
		return ret;
	ret = drm_vma_node_allow(&obj->vma_node, file);
	if (ret)
		goto err_detach;
	mutex_lock(&dev->object_name_lock);
	idr_preload(GFP_KERNEL);
	spin_lock(&file->table_lock);
	ret = idr_alloc(&file->object_idr, obj, handle, handle + 1, GFP_NOWAIT);
	/* Not the first handle: the reference that handles hold is there already. */
	if (ret >= 0)
		obj->handle_count++;
	spin_unlock(&file->table_lock);
	idr_preload_end();
	mutex_unlock(&dev->object_name_lock);
	if (ret >= 0)
		return 0;
	drm_vma_node_revoke(&obj->vma_node, file);
err_detach:
	sim_vm_detach(file->driver_priv, to_sim_bo(obj));
	return ret;
}

/* Importing the dma-buf again must give the new handle; needs handle_lock. */
static int sim_handle_share(struct drm_file *file, struct drm_gem_object *obj, u32 handle)
{
	struct dma_buf *dmabuf;
	bool shared;

	mutex_lock(&obj->dev->object_name_lock);
	shared = obj->dma_buf;
	mutex_unlock(&obj->dev->object_name_lock);
	if (!shared)
		return 0;
	dmabuf = drm_gem_prime_handle_to_dmabuf(obj->dev, file, handle, 0);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	dma_buf_put(dmabuf);
	return 0;
}

/* -ENOENT: no such handle; -EINVAL: a number no handle can have; -ENOSPC: it is taken. */
static int sim_handle_change(struct drm_file *file, u32 from, u32 to)
{
	struct drm_gem_object *obj;
	int ret;

	/* The range end given to idr_alloc() must fit an int too. */
	if (!to || to >= INT_MAX)
		return -EINVAL;
	obj = drm_gem_object_lookup(file, from);
	if (!obj)
		return -ENOENT;
	ret = from == to ? 0 : sim_handle_add(file, obj, to);
	if (!ret && from != to) {
		ret = sim_handle_share(file, obj, to);
		drm_gem_handle_delete(file, ret ? to : from);
	}
	drm_gem_object_put(obj);
	return ret;
}

static long sim_change_handle_ioctl(struct drm_file *file, unsigned int cmd, unsigned long arg)
{
	struct sim_vm *vm = file->driver_priv;
	struct sim_gem_change_handle args = {};
	size_t size = min_t(size_t, _IOC_SIZE(cmd), sizeof(args));
	int ret;

	if (cmd & IOC_IN && copy_from_user(&args, (void __user *)arg, size))
		return -EFAULT;
	if (sim_change_handle_is() != SIM_WORKING)
		return -EINVAL;
	mutex_lock(&vm->handle_lock);
	ret = sim_handle_change(file, args.handle, args.new_handle);
	mutex_unlock(&vm->handle_lock);
	return ret;
}

/* In front of the core's dispatcher, which knows neither of the new numbers. */
long sim_drm_unlocked_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct drm_file *file = filp->private_data;
	struct sim_vm *vm = file->driver_priv;
	long ret = sim_fault_drm_ioctl(DRM_IOCTL_NR(cmd));

	if (ret)
		return ret;
	switch (DRM_IOCTL_NR(cmd)) {
	case DRM_COMMAND_BASE + SIM_GEM_LIST_HANDLES_NR:
		if (sim_interface(&gem_list_handles, SIM_WORKING) == SIM_ABSENT)
			return -EINVAL;
		break;
	case DRM_IOCTL_NR(DRM_IOCTL_SIM_GEM_CHANGE_HANDLE):
		if (sim_change_handle_is() != SIM_ABSENT)
			return sim_change_handle_ioctl(file, cmd, arg);
		break;
	case DRM_IOCTL_NR(DRM_IOCTL_GEM_CLOSE):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
		/* None of them may see an object that has two handles for a moment. */
		mutex_lock(&vm->handle_lock);
		ret = drm_ioctl(filp, cmd, arg);
		mutex_unlock(&vm->handle_lock);
		return ret;
	}
	return drm_ioctl(filp, cmd, arg);
}

#ifdef CONFIG_COMPAT
/* Only ioctls of the core have other layouts for 32-bit callers. */
long sim_drm_compat_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	switch (DRM_IOCTL_NR(cmd)) {
	case DRM_COMMAND_BASE ... DRM_COMMAND_END - 1:
	case DRM_IOCTL_NR(DRM_IOCTL_SIM_GEM_CHANGE_HANDLE):
	case DRM_IOCTL_NR(DRM_IOCTL_GEM_CLOSE):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
		return sim_drm_unlocked_ioctl(filp, cmd, (unsigned long)compat_ptr(arg));
	}
	return drm_compat_ioctl(filp, cmd, arg);
}
#endif
