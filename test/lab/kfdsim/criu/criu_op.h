/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* AMDKFD_IOC_CRIU_OP, as the rest of the module calls it. */
#ifndef KFDSIM_CRIU_OP_H
#define KFDSIM_CRIU_OP_H

#include "kfd/process_types.h"

/* criu.c, criu_dump.c, criu_restore.c */
int sim_kfd_criu_op(struct sim_process *p, void *data);
void sim_criu_resume_work(struct work_struct *work);
int sim_criu_process_info(struct sim_process *p, struct kfd_ioctl_criu_args *args);
int sim_criu_checkpoint(struct sim_process *p, struct kfd_ioctl_criu_args *args);
int sim_criu_restore(struct sim_process *p, struct kfd_ioctl_criu_args *args);

/* criu_svm.c */
void sim_criu_drop_svm(struct sim_process *p);

#endif
