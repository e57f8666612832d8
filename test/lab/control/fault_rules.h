/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The rules that there are, shared by those who write them (fault_rules.c) and those who ask for them (faults.c). */
#ifndef SIM_FAULT_RULES_H
#define SIM_FAULT_RULES_H

#include <linux/list.h>
#include <linux/spinlock.h>

#include "faults.h"

struct sim_fault {
	struct list_head link;
	enum sim_fault_kind kind;
	u64 subject;			/* ioctl number or gpu_id */
	u64 left;			/* calls or copies until it strikes; 0: it stays */
	u64 value;			/* errno, ms, bit, engine or bytes */
};

extern struct list_head sim_faults;
extern spinlock_t sim_faults_lock;
extern unsigned int sim_nr_faults;

#endif
