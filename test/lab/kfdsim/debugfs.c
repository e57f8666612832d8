// SPDX-License-Identifier: GPL-2.0 OR MIT
/* debugfs simgpu/counters: living objects (0 when nobody uses the GPU) and totals. */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "kfdsim.h"

struct sim_counters sim_count;

static struct dentry *debugfs_dir;

#define SIM_COUNTER(name) { #name, &sim_count.name }

static const struct {
	const char *name;
	atomic64_t *value;
} sim_counter_table[] = {
	SIM_COUNTER(processes),
	SIM_COUNTER(bos),
	SIM_COUNTER(vram_bytes),
	SIM_COUNTER(gtt_bytes),
	SIM_COUNTER(queues),
	SIM_COUNTER(events),
	SIM_COUNTER(vms),
	SIM_COUNTER(contexts),
	SIM_COUNTER(userptr),
	SIM_COUNTER(maps),
	SIM_COUNTER(fences),
	SIM_COUNTER(evicted),
	SIM_COUNTER(pinned_pages),
	SIM_COUNTER(svm_ranges),
	SIM_COUNTER(cs_submitted),
	SIM_COUNTER(cs_max_in_flight),
	SIM_COUNTER(sdma_copies),
	SIM_COUNTER(sdma_bytes),
	SIM_COUNTER(gpu_faults),
	SIM_COUNTER(dispatches),
	SIM_COUNTER(doorbell_faults),
	SIM_COUNTER(queue_polls),
	SIM_COUNTER(resume_without_vm),
	SIM_COUNTER(resume_unrestored),
	SIM_COUNTER(paused_again),
	{ "faults_injected", &sim_faults_injected },
	SIM_COUNTER(blob_overruns),
	SIM_COUNTER(mes_restores),
	SIM_COUNTER(freed_folders),
	SIM_COUNTER(event_page_mixups),
	SIM_COUNTER(stale_handle_deletes),
	SIM_COUNTER(pages_returned),
};

static int sim_counters_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sim_counter_table); i++)
		seq_printf(m, "%s %lld\n", sim_counter_table[i].name,
			   atomic64_read(sim_counter_table[i].value));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sim_counters);

const unsigned long sim_fault_kinds = ~(BIT(SIM_FAULT_PACKET) | BIT(SIM_FAULT_INTERRUPT) |
					      BIT(SIM_FAULT_SUBMISSION));

/* Rules are looked at where they strike: nothing has to be done when they change. */
int sim_faults_changed(void)
{
	return 0;
}

void sim_debugfs_init(void)
{
	debugfs_dir = debugfs_create_dir("simgpu", NULL);
	debugfs_create_file("counters", 0444, debugfs_dir, NULL, &sim_counters_fops);
	sim_objects_init(debugfs_dir);
	sim_faults_init(debugfs_dir);
}

void sim_debugfs_fini(void)
{
	debugfs_remove(debugfs_dir);
	sim_faults_fini();
}
