/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Hardware state of a queue in the CRIU blob, shared by CHECKPOINT and RESTORE. */
#ifndef KFDSIM_CRIU_QUEUE_H
#define KFDSIM_CRIU_QUEUE_H

#include "criu/criu.h"
#include "kfdsim.h"

#define SIM_MQD_BYTES	2048	/* compute: v9_structs.h:v9_mqd and those of gfx10 and gfx11 @ 6.12.117 */

/* Bytes of hardware state of one queue in the blob, of all XCCs that are in it. */
struct sim_mqd_sizes {
	u32 xccs, mqd, ctl_stack;
};

/* criu_queue_state.c */
u32 sim_mqd_bytes(const struct sim_queue *q);
struct sim_mqd_sizes sim_mqd_sizes(const struct sim_queue *q);
void sim_state_save(const struct sim_queue *q, struct sim_mqd_sizes s, u8 *state);
int sim_state_load(struct sim_queue *q, struct sim_mqd_sizes s, u8 *state);

#endif
