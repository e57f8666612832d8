// SPDX-License-Identifier: GPL-2.0 OR MIT
/* debugfs simgpu: its files are there while a GPU is. */
#include <linux/debugfs.h>

#include "control.h"
#include "faults.h"

struct sim_totals sim_count;

static struct dentry *sim_folder;
static unsigned int sim_users;

void sim_control_start(void)
{
	if (sim_users++)
		return;
	sim_folder = debugfs_create_dir("simgpu", NULL);
	sim_counters_init(sim_folder);
	sim_objects_init(sim_folder);
	sim_faults_init(sim_folder);
}

void sim_control_stop(void)
{
	if (--sim_users)
		return;
	debugfs_remove(sim_folder);
	sim_faults_fini();
}
