// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The DRM device: render node, INFO queries, sysfs of the device. */
#include <linux/device_cgroup.h>
#include <linux/uaccess.h>
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

static u32 sim_family(struct sim_gpu *gpu)
{
	switch (gpu->gfx_target_version / 10000) {
	case 10:
		return AMDGPU_FAMILY_NV;
	case 11:
		return AMDGPU_FAMILY_GC_11_0_0;
	case 12:
		return AMDGPU_FAMILY_GC_12_0_0;
	default:
		return AMDGPU_FAMILY_AI;
	}
}

static void sim_info_device(struct sim_gpu *gpu, struct drm_amdgpu_info_device *info)
{
	info->device_id = gpu->device_id;
	info->family = sim_family(gpu);
	info->external_rev = 1;
	info->num_shader_engines = 8;
	info->num_shader_arrays_per_engine = 1;
	info->gpu_counter_freq = 100000;
	info->max_engine_clock = 1700000;
	info->max_memory_clock = 1600000;
	info->cu_active_number = gpu->compute_units;
	info->num_cu_per_sh = 14;
	info->wave_front_size = 64;
	info->virtual_address_offset = SIM_GPUVM_BASE;
	info->virtual_address_max = SIM_GPUVM_LIMIT + 1;
	info->virtual_address_alignment = PAGE_SIZE;
	info->high_va_offset = SIM_GPUVM_HIGH;
	info->high_va_max = SIM_GPUVM_HIGH | SIM_GPUVM_END;
	info->pte_fragment_size = 2 << 20;
	info->gart_page_size = PAGE_SIZE;
	info->vram_type = AMDGPU_VRAM_TYPE_HBM;
	info->vram_bit_width = 4096;
}

static void sim_info_heap(struct drm_amdgpu_heap_info *heap, u64 total, u64 used)
{
	heap->total_heap_size = total;
	heap->usable_heap_size = total;
	heap->heap_usage = used;
	heap->max_allocation = total;
}

static void sim_info_memory(struct sim_gpu *gpu, struct drm_amdgpu_memory_info *info)
{
	sim_info_heap(&info->vram, gpu->vram_bytes, atomic64_read(&gpu->vram_used));
	info->cpu_accessible_vram = info->vram;
	sim_info_heap(&info->gtt, sim.gtt_bytes, atomic64_read(&gpu->gtt_used));
}

static void sim_info_hw_ip(struct sim_gpu *gpu, struct drm_amdgpu_info_hw_ip *info, u32 type)
{
	if (type != AMDGPU_HW_IP_DMA)
		return;
	info->hw_ip_version_major = 4;
	info->hw_ip_version_minor = 4;
	info->ib_start_alignment = 256;
	info->ib_size_alignment = 4;
	info->available_rings = GENMASK(min(sim_num_engines(gpu), SIM_DMA_RINGS) - 1, 0);
}

static int sim_info_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_gpu *gpu = sim_gpu_of(dev);
	struct drm_amdgpu_info *args = data;
	union {
		u32 u32;
		u64 u64;
		u32 regs[64];
		struct drm_amdgpu_info_vram_gtt vram_gtt;
		struct drm_amdgpu_memory_info memory;
		struct drm_amdgpu_info_device device;
		struct drm_amdgpu_info_hw_ip hw_ip;
		struct drm_amdgpu_info_firmware firmware;
	} out = {};
	u32 size = sizeof(u64);

	switch (args->query) {
	case AMDGPU_INFO_ACCEL_WORKING:
		out.u32 = 1;
		size = sizeof(out.u32);
		break;
	case AMDGPU_INFO_DEV_INFO:
		sim_info_device(gpu, &out.device);
		size = sizeof(out.device);
		break;
	case AMDGPU_INFO_READ_MMR_REG:
		if (!args->read_mmr_reg.count || args->read_mmr_reg.count > ARRAY_SIZE(out.regs))
			return -EINVAL;
		size = args->read_mmr_reg.count * sizeof(u32);
		break;
	case AMDGPU_INFO_MEMORY:
		sim_info_memory(gpu, &out.memory);
		size = sizeof(out.memory);
		break;
	case AMDGPU_INFO_VRAM_GTT:
		out.vram_gtt.vram_size = gpu->vram_bytes;
		out.vram_gtt.vram_cpu_accessible_size = gpu->vram_bytes;
		out.vram_gtt.gtt_size = sim.gtt_bytes;
		size = sizeof(out.vram_gtt);
		break;
	case AMDGPU_INFO_VRAM_USAGE:
	case AMDGPU_INFO_VIS_VRAM_USAGE:
		out.u64 = atomic64_read(&gpu->vram_used);
		break;
	case AMDGPU_INFO_GTT_USAGE:
		out.u64 = atomic64_read(&gpu->gtt_used);
		break;
	case AMDGPU_INFO_TIMESTAMP:
		out.u64 = sim_gpu_clock();
		break;
	case AMDGPU_INFO_NUM_BYTES_MOVED:
	case AMDGPU_INFO_NUM_EVICTIONS:
	case AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS:
		break;
	case AMDGPU_INFO_FW_VERSION:
		size = sizeof(out.firmware);
		break;
	case AMDGPU_INFO_HW_IP_INFO:
		if (args->query_hw_ip.type >= AMDGPU_HW_IP_NUM || args->query_hw_ip.ip_instance)
			return -EINVAL;
		sim_info_hw_ip(gpu, &out.hw_ip, args->query_hw_ip.type);
		size = sizeof(out.hw_ip);
		break;
	case AMDGPU_INFO_HW_IP_COUNT:
		out.u32 = args->query_hw_ip.type == AMDGPU_HW_IP_DMA;
		size = sizeof(out.u32);
		break;
	default:
		return -EINVAL;
	}
	if (copy_to_user(u64_to_user_ptr(args->return_pointer), &out,
			 min(size, args->return_size)))
		return -EFAULT;
	return 0;
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

static const struct file_operations sim_drm_fops = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = drm_release,
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
