/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What is to go wrong: rules of debugfs simgpu/faults, for either driver. fault_rules.c has their form. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <linux/types.h>

struct dentry;

enum sim_fault_kind {
	SIM_FAULT_KFD,
	SIM_FAULT_DRM,
	SIM_FAULT_COPY_FAIL,
	SIM_FAULT_COPY_DELAY,
	SIM_FAULT_COPY_FLIP,
	SIM_FAULT_SDMA,
	SIM_FAULT_VRAM,
	SIM_FAULT_RESUME,
	/* In the middle of CRIU_OP: */
	SIM_FAULT_PAUSE,
	SIM_FAULT_UNPAUSE,
	SIM_FAULT_SAVED_BO,
	SIM_FAULT_RESTORED_BO,
	SIM_FAULT_OBJECT,
	SIM_FAULT_SVM_RANGE,
	SIM_FAULT_PACKET,
	SIM_FAULT_INTERRUPT,
	SIM_FAULT_SUBMISSION,
};

/* What is to happen to a copy packet. */
struct sim_copy_fault {
	bool fail, flip;
	u64 bit;			/* to be inverted in what it wrote */
	u64 delay;			/* ns */
};

extern atomic64_t sim_faults_injected;	/* counted rules that have struck */

int sim_fault_kfd_ioctl(unsigned int nr);
int sim_fault_drm_ioctl(unsigned int nr);
struct sim_copy_fault sim_fault_copy(void);
bool sim_fault_refuses_sdma(u32 gpu_id, u32 engine);
bool sim_fault_holds_resume(void);
int sim_fault_criu(enum sim_fault_kind kind);
bool sim_fault_packet(void);
bool sim_fault_interrupt(void);
bool sim_fault_submission(void);
u64 sim_fault_vram(u32 gpu_id, u64 bytes);
void sim_faults_init(struct dentry *dir);
void sim_faults_fini(void);

/* Of the driver: a bit for each kind of rule that it follows. */
extern const unsigned long sim_fault_kinds;

/* Of the driver: rules were added or forgotten. 0 or -errno, which the writer of the rule gets. */
int sim_faults_changed(void);

#endif
