// SPDX-License-Identifier: GPL-2.0 OR MIT
/* /sys/class/kfd/kfd/topology: node 0 is the CPU, node 1 the simulated GPU. */
#include <linux/device.h>
#include <linux/sysfs.h>
#include <drm/drm_device.h>

#include "kfdsim.h"

#define SIM_TOPOLOGY_DIRS	32
#define SIM_TOPOLOGY_FILES	32

/* DoorbellType 2 (bits 13:12): 8-byte doorbells. No SVM, no debugger, see README.md. */
#define SIM_CAPABILITY (0x2000 | 0x18)

struct sim_topology_file {
	struct kobj_attribute attr;
	struct kobject *dir;
	char *text;
};

static struct kobject *dirs[SIM_TOPOLOGY_DIRS];
static struct sim_topology_file files[SIM_TOPOLOGY_FILES];
static unsigned int nr_dirs, nr_files;
static int topology_error;

static ssize_t sim_topology_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s", container_of(attr, struct sim_topology_file, attr)->text);
}

/* Errors are collected in topology_error: the tree is all or nothing. */
static struct kobject *sim_dir(struct kobject *parent, const char *name)
{
	struct kobject *dir;

	if (topology_error || nr_dirs == SIM_TOPOLOGY_DIRS) {
		topology_error = topology_error ?: -ENOSPC;
		return NULL;
	}
	dir = kobject_create_and_add(name, parent);
	if (!dir)
		topology_error = -ENOMEM;
	else
		dirs[nr_dirs++] = dir;
	return dir;
}

static __printf(3, 4) void sim_file(struct kobject *dir, const char *name, const char *fmt, ...)
{
	struct sim_topology_file *f;
	va_list ap;

	if (topology_error || nr_files == SIM_TOPOLOGY_FILES) {
		topology_error = topology_error ?: -ENOSPC;
		return;
	}
	f = &files[nr_files];
	va_start(ap, fmt);
	f->text = kvasprintf(GFP_KERNEL, fmt, ap);
	va_end(ap);
	if (!f->text) {
		topology_error = -ENOMEM;
		return;
	}
	sysfs_attr_init(&f->attr.attr);
	f->attr.attr.name = name;
	f->attr.attr.mode = 0444;
	f->attr.show = sim_topology_show;
	f->dir = dir;
	nr_files++;
	topology_error = sysfs_create_file(dir, &f->attr.attr);
	if (topology_error)
		f->dir = NULL;
}

static void sim_link(struct kobject *node, int from, int to)
{
	struct kobject *link = sim_dir(sim_dir(node, "io_links"), "0");

	sim_file(link, "properties",
		 "type 2\nversion_major 0\nversion_minor 0\nnode_from %d\nnode_to %d\n"
		 "weight 20\nmin_latency 0\nmax_latency 0\nmin_bandwidth 312\n"
		 "max_bandwidth 32000\nrecommended_transfer_size 0\n"
		 "recommended_sdma_engine_id_mask 0\nflags 1\n", from, to);
	sim_dir(node, "p2p_links");
}

static void sim_bank(struct kobject *node, int heap, u64 size, int width, int clock)
{
	sim_file(sim_dir(sim_dir(node, "mem_banks"), "0"), "properties",
		 "heap_type %d\nsize_in_bytes %llu\nflags 0\nwidth %d\nmem_clk_max %d\n", heap,
		 size, width, clock);
}

static void sim_cpu_node(struct kobject *nodes)
{
	struct kobject *node = sim_dir(nodes, "0");

	sim_file(node, "gpu_id", "0\n");
	sim_file(node, "name", "\n");
	sim_file(node, "properties",
		 "cpu_cores_count %u\nsimd_count 0\nmem_banks_count 1\ncaches_count 0\n"
		 "io_links_count 1\np2p_links_count 0\ncpu_core_id_base 0\nsimd_id_base 0\n"
		 "max_waves_per_simd 0\nlds_size_in_kb 0\ngds_size_in_kb 0\nnum_gws 0\n"
		 "wave_front_size 0\narray_count 0\nsimd_arrays_per_engine 0\n"
		 "cu_per_simd_array 0\nsimd_per_cu 0\nmax_slots_scratch_cu 0\n"
		 "gfx_target_version 0\nvendor_id 0\ndevice_id 0\nlocation_id 0\ndomain 0\n"
		 "drm_render_minor 0\nhive_id 0\nnum_sdma_engines 0\n"
		 "num_sdma_xgmi_engines 0\nnum_sdma_queues_per_engine 0\nnum_cp_queues 0\n"
		 "cwsr_size 0\nctl_stack_size 0\nmax_engine_clk_ccompute 2000\n",
		 num_online_cpus());
	sim_bank(node, 0, (u64)totalram_pages() << PAGE_SHIFT, 64, 3200);
	sim_dir(node, "caches");
	sim_link(node, 0, 1);
}

static const char *sim_gpu_name(void)
{
	switch (sim.gfx_target_version) {
	case 90006:
		return "vega20";
	case 90008:
		return "arcturus";
	case 90010:
		return "aldebaran";
	default:
		return "simulated";
	}
}

static void sim_gpu_node(struct kobject *nodes)
{
	struct kobject *node = sim_dir(nodes, "1");

	sim_file(node, "gpu_id", "%u\n", sim.gpu_id);
	sim_file(node, "name", "%s\n", sim_gpu_name());
	sim_file(node, "properties",
		 "cpu_cores_count 0\nsimd_count %u\nmem_banks_count 1\ncaches_count 1\n"
		 "io_links_count 1\np2p_links_count 0\ncpu_core_id_base 0\n"
		 "simd_id_base 2147487744\nmax_waves_per_simd 8\nlds_size_in_kb 64\n"
		 "gds_size_in_kb 0\nnum_gws 64\nwave_front_size 64\narray_count 8\n"
		 "simd_arrays_per_engine 1\ncu_per_simd_array 14\nsimd_per_cu 4\n"
		 "max_slots_scratch_cu 32\ngfx_target_version %u\nvendor_id 4098\n"
		 "device_id %u\nlocation_id 256\ndomain 0\ndrm_render_minor %d\nhive_id 0\n"
		 "num_sdma_engines %d\nnum_sdma_xgmi_engines 0\n"
		 "num_sdma_queues_per_engine %d\nnum_cp_queues 24\ncwsr_size 0\n"
		 "ctl_stack_size 0\nmax_engine_clk_fcompute 1700\nlocal_mem_size 0\n"
		 "fw_version 71\ncapability %u\ndebug_prop 0\nsdma_fw_version 8\n"
		 "unique_id 81985529216486895\nnum_xcc 1\nmax_engine_clk_ccompute 2000\n",
		 sim.compute_units * SIM_SIMDS_PER_CU, sim.gfx_target_version, sim.device_id,
		 sim.drm->render->index, SIM_NUM_SDMA,
		 SIM_SDMA_QUEUES, SIM_CAPABILITY);
	sim_bank(node, 1, sim.vram_bytes, 4096, 1600);
	sim_file(sim_dir(sim_dir(node, "caches"), "0"), "properties",
		 "processor_id_low 2147487744\nlevel 1\nsize 16\ncache_line_size 64\n"
		 "cache_lines_per_tag 1\nassociation 16\nlatency 0\ntype 9\nsibling_map 1\n");
	sim_link(node, 1, 0);
}

int sim_topology_init(struct device *kfd)
{
	struct kobject *top = sim_dir(&kfd->kobj, "topology"), *nodes;

	sim_file(top, "generation_id", "2\n");
	sim_file(top, "system_properties", "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
	nodes = sim_dir(top, "nodes");
	sim_cpu_node(nodes);
	sim_gpu_node(nodes);
	if (topology_error)
		sim_topology_fini();
	return topology_error;
}

void sim_topology_fini(void)
{
	while (nr_files) {
		struct sim_topology_file *f = &files[--nr_files];

		if (f->dir)
			sysfs_remove_file(f->dir, &f->attr.attr);
		kfree(f->text);
	}
	while (nr_dirs) {
		kobject_del(dirs[--nr_dirs]);
		kobject_put(dirs[nr_dirs]);
	}
}
