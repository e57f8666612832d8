// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The DRM device: render node, sysfs of the device. INFO queries are in info.c. */
#include <linux/device_cgroup.h>
#include <drm/drm_drv.h>
#include <drm/drm_ioctl.h>

#include "kernels.h"
#include "kfdsim.h"
#include "drm/later_uapi.h"

static int sim_drm_open(struct drm_device *dev, struct drm_file *file)
{
	struct sim_vm *vm = kzalloc(sizeof(*vm), GFP_KERNEL);

	if (!vm)
		return -ENOMEM;
	sim_vm_init(vm, sim_gpu_of(dev));
	file->driver_priv = vm;
	return 0;
}

static void sim_drm_postclose(struct drm_device *dev, struct drm_file *file)
{
	struct sim_vm *vm = file->driver_priv;

	sim_ctx_free_all(vm);
	sim_bo_lists_free(vm);
	sim_vm_fini(vm);
	kfree(vm);
}

#define SIM_IOCTL(name, func) DRM_IOCTL_DEF_DRV(name, func, DRM_AUTH | DRM_RENDER_ALLOW)

/* What came after 6.12 is in handles.c, absent unless asked for. */
static const struct drm_ioctl_desc sim_ioctls[] = {
	SIM_IOCTL(AMDGPU_GEM_CREATE, sim_gem_create_ioctl),
	SIM_IOCTL(AMDGPU_GEM_MMAP, sim_gem_mmap_ioctl),
	SIM_IOCTL(AMDGPU_CTX, sim_ctx_ioctl),
	SIM_IOCTL(AMDGPU_BO_LIST, sim_bo_list_ioctl),
	SIM_IOCTL(AMDGPU_CS, sim_cs_ioctl),
	SIM_IOCTL(AMDGPU_INFO, sim_info_ioctl),
	SIM_IOCTL(AMDGPU_GEM_METADATA, sim_gem_metadata_ioctl),
	SIM_IOCTL(AMDGPU_GEM_WAIT_IDLE, sim_gem_wait_idle_ioctl),
	SIM_IOCTL(AMDGPU_GEM_VA, sim_gem_va_ioctl),
	SIM_IOCTL(AMDGPU_WAIT_CS, sim_wait_cs_ioctl),
	SIM_IOCTL(SIM_GEM_OP, sim_gem_op_ioctl),
	SIM_IOCTL(AMDGPU_GEM_USERPTR, sim_gem_userptr_ioctl),
	SIM_IOCTL(AMDGPU_WAIT_FENCES, sim_wait_fences_ioctl),
	SIM_IOCTL(AMDGPU_FENCE_TO_HANDLE, sim_fence_to_handle_ioctl),
	SIM_IOCTL(SIM_GEM_LIST_HANDLES, sim_gem_list_handles_ioctl),
};

/* What the file has submitted ends before its handles go. */
static int sim_drm_release(struct inode *inode, struct file *filp)
{
	struct drm_file *file = filp->private_data;

	sim_submissions_cancel(file->driver_priv);
	return drm_release(inode, filp);
}

static const struct file_operations sim_drm_fops = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = sim_drm_release,
	.unlocked_ioctl = sim_drm_unlocked_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl = sim_drm_compat_ioctl,
#endif
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = drm_gem_mmap,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

static struct drm_driver sim_drm_driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER | DRIVER_SYNCOBJ | DRIVER_SYNCOBJ_TIMELINE,
	.open = sim_drm_open,
	.postclose = sim_drm_postclose,
	.ioctls = sim_ioctls,
	.num_ioctls = ARRAY_SIZE(sim_ioctls),
	.gem_prime_import_sg_table = sim_prime_import_sg_table,
	.fops = &sim_drm_fops,
	.name = "amdgpu",
	.desc = "AMD GPU (simulated)",
	SIM_DRIVER_DATE
	.major = 3,
	.minor = 61,
};

/* The version that programs are told, from now on. */
void sim_drm_behave(const struct sim_kernel *kernel)
{
	WRITE_ONCE(sim_drm_driver.minor, kernel->kms_minor);
}

/* Is this an open file of a simulated render or primary node? */
bool sim_is_drm_file(struct file *file)
{
	return file->f_op == &sim_drm_fops;
}

/* May the caller use the render node? KFD hides a GPU from those whose device cgroup forbids it. */
bool sim_gpu_visible(struct sim_gpu *gpu)
{
	return !devcgroup_check_permission(DEVCG_DEV_CHAR, DRM_MAJOR, gpu->drm->render->index,
					   DEVCG_ACC_READ | DEVCG_ACC_WRITE);
}

static struct sim_gpu *sim_gpu_of_device(struct device *dev)
{
	return dev_get_drvdata(dev);
}

static ssize_t mem_info_vram_total_show(struct device *dev, struct device_attribute *attr,
					char *buf)
{
	return sysfs_emit(buf, "%llu\n", sim_gpu_of_device(dev)->vram_bytes);
}
static DEVICE_ATTR_RO(mem_info_vram_total);

static ssize_t mem_info_vram_used_show(struct device *dev, struct device_attribute *attr,
				       char *buf)
{
	return sysfs_emit(buf, "%lld\n", atomic64_read(&sim_gpu_of_device(dev)->vram_used));
}
static DEVICE_ATTR_RO(mem_info_vram_used);

static ssize_t mem_info_gtt_total_show(struct device *dev, struct device_attribute *attr,
				       char *buf)
{
	return sysfs_emit(buf, "%llu\n", sim.gtt_bytes);
}
static DEVICE_ATTR_RO(mem_info_gtt_total);

static ssize_t mem_info_gtt_used_show(struct device *dev, struct device_attribute *attr,
				      char *buf)
{
	return sysfs_emit(buf, "%lld\n", atomic64_read(&sim_gpu_of_device(dev)->gtt_used));
}
static DEVICE_ATTR_RO(mem_info_gtt_used);

static struct attribute *sim_device_attrs[] = {
	&dev_attr_mem_info_vram_total.attr,
	&dev_attr_mem_info_vram_used.attr,
	&dev_attr_mem_info_gtt_total.attr,
	&dev_attr_mem_info_gtt_used.attr,
	NULL,
};

static const struct attribute_group sim_device_group = { .attrs = sim_device_attrs };

/* The device of one GPU; the first free minors make it cardN and renderD128+N. */
int sim_drm_init(struct sim_gpu *gpu)
{
	struct device *dev = &gpu->pdev->dev;
	int ret;

	gpu->drm = drm_dev_alloc(&sim_drm_driver, dev);
	if (IS_ERR(gpu->drm))
		return PTR_ERR(gpu->drm);
	gpu->drm->dev_private = gpu;
	dev_set_drvdata(dev, gpu);
	ret = sysfs_create_group(&dev->kobj, &sim_device_group);
	if (ret)
		goto err_put;
	ret = drm_dev_register(gpu->drm, 0);
	if (ret)
		goto err_group;
	return 0;

err_group:
	sysfs_remove_group(&dev->kobj, &sim_device_group);
err_put:
	drm_dev_put(gpu->drm);
	return ret;
}

void sim_drm_fini(struct sim_gpu *gpu)
{
	drm_dev_unregister(gpu->drm);
	sysfs_remove_group(&gpu->pdev->dev.kobj, &sim_device_group);
	drm_dev_put(gpu->drm);
}
