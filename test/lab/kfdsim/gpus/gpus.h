/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The GPUs there are, and what /sys/class/kfd tells of them. */
#ifndef KFDSIM_GPUS_H
#define KFDSIM_GPUS_H

#include "kfd/process_types.h"

/* gpus.c */
int sim_gpus_init(void);
void sim_gpus_fini(void);
struct sim_gpu *sim_gpu_by_id(u32 gpu_id);
static inline struct sim_gpu *sim_gpu_of(struct drm_device *dev) { return dev->dev_private; }

/* topology.c */
int sim_topology_init(struct device *kfd);
void sim_topology_fini(void);

#endif
