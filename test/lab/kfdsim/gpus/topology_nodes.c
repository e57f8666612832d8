// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Nodes of the topology: CPUs first, then the GPUs, each as its gfx version has it. */
#include <drm/drm_device.h>

#include "gpus/topology.h"

/* DoorbellType 2 (bits 13:12): 8-byte doorbells. No debugger, see README.md. */
#define SIM_CAPABILITY		(0x2000 | 0x18)
#define SIM_CAPABILITY_SVM	0x08000000	/* kfd_sysfs.h:HSA_CAP_SVMAPI_SUPPORTED @ 7.3.4 */
/* SIMDs of GPUs are numbered from here on: kfd_crat.c:gpu_processor_id_low @ 6.12.117. */
#define SIM_SIMD_ID_BASE	0x80001000u
#define SIM_UNIQUE_ID		0x123456789abcdefULL

/* What differs between generations; the rest is the same for all in sim_gpu_node(). */
struct sim_gfx {
	u32 version;
	const char *name;		/* of the chip: kfd_topology.c:kfd_topology_add_device @ 6.12.117 */
	u32 wave_front, simd_per_cu, max_waves;
	u32 arrays, arrays_per_engine, cu_per_array;	/* of one XCC */
};

static const struct sim_gfx sim_gfx_table[] = {
	{ 90006, "vega20", 64, 4, 10, 4, 1, 16 },
	{ 90008, "arcturus", 64, 4, 10, 8, 1, 16 },
	{ 90010, "aldebaran", 64, 4, 8, 8, 1, 14 },
	{ 90402, "ip discovery", 64, 4, 8, 4, 1, 10 },
	{ 100300, "sienna_cichlid", 32, 2, 16, 8, 2, 10 },
};

static const struct sim_gfx sim_gfx_other = { 0, "simulated", 64, 4, 8, 8, 1, 14 };

static const struct sim_gfx *sim_gfx_find(u32 version)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sim_gfx_table); i++)
		if (sim_gfx_table[i].version == version)
			return &sim_gfx_table[i];
	return &sim_gfx_other;
}

#define SIM_CU_BYTES		(0x4000 + 0x10000 + 0x1000)	/* SGPRs, LDS, registers */
#define SIM_SAVE_AREA_HEADER	40

/* What a queue's save area takes on one XCC: kfd_queue.c:kfd_queue_ctx_save_restore_size @ 6.12.117. */
static void sim_save_area_size(struct sim_gpu *gpu, const struct sim_gfx *gfx)
{
	u32 version = gpu->gfx_target_version, cus = gpu->compute_units / gpu->num_xcc, vgprs = 0x40000, waves, stack;

	if (version / 100 == 904 || version == 90010 || version == 90008)
		vgprs = 0x80000;
	else if (version == 110000 || version == 110001 || version == 110501 || version == 120000 ||
		 version == 120001)
		vgprs = 0x60000;
	waves = version >= 100100 ? cus * 32 :
		min(cus * 40, gfx->arrays * gpu->num_xcc / gfx->arrays_per_engine * 512);
	stack = PAGE_ALIGN(SIM_SAVE_AREA_HEADER + waves * (version >= 100100 ? 12 : 8) + 8);
	if (version / 10000 == 10)
		stack = min(stack, 0x7000u);
	gpu->ctl_stack_bytes = stack;
	gpu->cwsr_bytes = stack + PAGE_ALIGN(cus * (vgprs + SIM_CU_BYTES));
	gpu->debugger_bytes = ALIGN(waves * 32, 64);
}

static struct kobject *sim_node(struct kobject *nodes, unsigned int nr)
{
	char name[12];

	snprintf(name, sizeof(name), "%u", nr);
	return sim_topology_dir(nodes, name);
}

static void sim_bank(struct kobject *node, struct sim_gpu *gpu, int heap, u64 size, int width,
		     int clock)
{
	sim_topology_file(sim_topology_dir(sim_topology_dir(node, "mem_banks"), "0"), gpu,
			  "properties",
			  "heap_type %d\nsize_in_bytes %llu\nflags 0\nwidth %d\nmem_clk_max %d\n",
			  heap, size, width, clock);
}

/* Processors and memory are divided evenly among the CPU nodes. */
static void sim_cpu_node(struct kobject *nodes, unsigned int nr)
{
	unsigned int cpus = sim_topology_cpus(), cores = max(num_online_cpus() / cpus, 1u);
	struct kobject *node = sim_node(nodes, nr);
	unsigned int io = sim_topology_links(node, NULL, nr, false);
	unsigned int p2p = sim_topology_links(node, NULL, nr, true);

	sim_topology_file(node, NULL, "gpu_id", "0\n");
	sim_topology_file(node, NULL, "name", "\n");
	sim_topology_file(node, NULL, "properties",
			  "cpu_cores_count %u\nsimd_count 0\nmem_banks_count 1\ncaches_count 0\n"
			  "io_links_count %u\np2p_links_count %u\ncpu_core_id_base %u\n"
			  "simd_id_base 0\nmax_waves_per_simd 0\nlds_size_in_kb 0\n"
			  "gds_size_in_kb 0\nnum_gws 0\nwave_front_size 0\narray_count 0\n"
			  "simd_arrays_per_engine 0\ncu_per_simd_array 0\nsimd_per_cu 0\n"
			  "max_slots_scratch_cu 0\ngfx_target_version 0\nvendor_id 0\n"
			  "device_id 0\nlocation_id 0\ndomain 0\ndrm_render_minor 0\nhive_id 0\n"
			  "num_sdma_engines 0\nnum_sdma_xgmi_engines 0\n"
			  "num_sdma_queues_per_engine 0\nnum_cp_queues 0\ncwsr_size 0\n"
			  "ctl_stack_size 0\nmax_engine_clk_ccompute 2000\n",
			  cores, io, p2p, nr * cores);
	sim_bank(node, NULL, 0, ((u64)totalram_pages() << PAGE_SHIFT) / cpus, 64, 3200);
	sim_topology_dir(node, "caches");
}

/* A partition is a function of its device's: kfd_topology.c:kfd_topology_add_device @ 6.12.117. */
static u32 sim_location(const struct sim_gpu *gpu)
{
	return (gpu->index / gpu->partitions + 1) << 8 | gpu->partition;
}

/* The same @ 7.3.4. */
static u32 sim_capability(void)
{
	return SIM_CAPABILITY | (sim_behaves_as()->svm ? SIM_CAPABILITY_SVM : 0);
}

static void sim_gpu_node(struct kobject *nodes, struct sim_gpu *gpu)
{
	const struct sim_gfx *gfx = sim_gfx_find(gpu->gfx_target_version);
	unsigned int nr = sim_topology_cpus() + gpu->index;
	u32 simds = gpu->compute_units * gfx->simd_per_cu;
	u32 simd_base = SIM_SIMD_ID_BASE + gpu->index * 0x1000;
	struct kobject *node = sim_node(nodes, nr);
	unsigned int io = sim_topology_links(node, gpu, nr, false);
	unsigned int p2p = sim_topology_links(node, gpu, nr, true);

	sim_save_area_size(gpu, gfx);
	sim_topology_file(node, gpu, "gpu_id", "%u\n", gpu->gpu_id);
	sim_topology_file(node, gpu, "name", "%s\n", gfx->name);
	sim_topology_capability(sim_topology_file(node, gpu, "properties",
			  "cpu_cores_count 0\nsimd_count %u\nmem_banks_count 1\ncaches_count 1\n"
			  "io_links_count %u\np2p_links_count %u\ncpu_core_id_base 0\n"
			  "simd_id_base %u\nmax_waves_per_simd %u\nlds_size_in_kb 64\n"
			  "gds_size_in_kb 0\nnum_gws 64\nwave_front_size %u\narray_count %u\n"
			  "simd_arrays_per_engine %u\ncu_per_simd_array %u\nsimd_per_cu %u\n"
			  "max_slots_scratch_cu 32\ngfx_target_version %u\nvendor_id 4098\n"
			  "device_id %u\nlocation_id %u\ndomain 0\ndrm_render_minor %d\n"
			  "hive_id %u\nnum_sdma_engines %u\nnum_sdma_xgmi_engines %u\n"
			  "num_sdma_queues_per_engine %d\nnum_cp_queues 24\ncwsr_size %u\n"
			  "ctl_stack_size %u\nmax_engine_clk_fcompute 1700\nlocal_mem_size 0\n"
			  "fw_version 71\ndebug_prop 0\nsdma_fw_version 8\n"
			  "unique_id %llu\nnum_xcc %u\nmax_engine_clk_ccompute 2000\n",
			  simds, io, p2p, simd_base, gfx->max_waves, gfx->wave_front,
			  gfx->arrays * gpu->num_xcc, gfx->arrays_per_engine, gfx->cu_per_array,
			  gfx->simd_per_cu, gpu->gfx_target_version, gpu->device_id,
			  sim_location(gpu), gpu->drm->render->index, gpu->hive, gpu->num_sdma,
			  gpu->num_xgmi, SIM_SDMA_QUEUES, gpu->cwsr_bytes, gpu->ctl_stack_bytes,
			  SIM_UNIQUE_ID + gpu->index / gpu->partitions, gpu->num_xcc), sim_capability);
	sim_bank(node, gpu, 1, gpu->vram_bytes, 4096, 1600);
	sim_topology_file(sim_topology_dir(sim_topology_dir(node, "caches"), "0"), gpu,
			  "properties",
			  "processor_id_low %u\nlevel 1\nsize 16\ncache_line_size 64\n"
			  "cache_lines_per_tag 1\nassociation 16\nlatency 0\ntype 9\n"
			  "sibling_map 1\n", simd_base);
}

void sim_topology_nodes(struct kobject *nodes)
{
	unsigned int i;

	for (i = 0; i < sim_topology_cpus(); i++)
		sim_cpu_node(nodes, i);
	for (i = 0; i < sim.nr_gpus; i++)
		sim_gpu_node(nodes, &sim.gpus[i]);
}
