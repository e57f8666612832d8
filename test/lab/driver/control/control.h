/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Inspection and control of the driver and its simulated hardware: debugfs simgpu, in the same form as kfdsim's. */
#ifndef SIM_CONTROL_H
#define SIM_CONTROL_H

#include <linux/atomic.h>
#include <linux/types.h>

struct amdgpu_device;
struct dentry;
struct kfd_process;
struct seq_file;

/* Totals since the module was loaded. */
struct sim_totals {
	atomic64_t cs_submitted, sdma_copies, sdma_bytes, gpu_faults, dispatches, doorbell_faults;
	atomic64_t resume_without_vm, resume_unrestored, paused_again;
};

extern struct sim_totals sim_count;

/* control.c: with the first GPU, and after the last */
void sim_control_start(void);
void sim_control_stop(void);

/* counters.c */
void sim_counters_init(struct dentry *dir);

/* objects.c */
void sim_objects_init(struct dentry *dir);

/* svm.c */
s64 sim_svm_count(struct kfd_process *p);
void sim_svm_show(struct seq_file *m, struct kfd_process *p);

/* shortage.c */
void sim_shortage_end(struct amdgpu_device *adev);

#endif
