/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The topology's tree in sysfs, shared by the files that fill it. */
#ifndef KFDSIM_TOPOLOGY_H
#define KFDSIM_TOPOLOGY_H

#include "kfdsim.h"

/* topology.c; errors are collected there, so results may be passed on unchecked. */
struct kobject *sim_topology_dir(struct kobject *parent, const char *name);
struct sim_topology_file;
__printf(4, 5) struct sim_topology_file *sim_topology_file(struct kobject *dir, struct sim_gpu *gpu, const char *name,
							   const char *fmt, ...);
void sim_topology_capability(struct sim_topology_file *f, u32 (*capability)(void));

/* topology_links.c */
unsigned int sim_topology_cpus(void);
unsigned int sim_topology_links(struct kobject *node, struct sim_gpu *gpu, unsigned int from,
				bool p2p);

/* topology_nodes.c */
void sim_topology_nodes(struct kobject *nodes);

#endif
