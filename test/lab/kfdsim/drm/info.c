// SPDX-License-Identifier: GPL-2.0 OR MIT
/* INFO queries of the render node. */
#include <linux/uaccess.h>

#include "kfdsim.h"

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

int sim_info_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
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
