/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Shared virtual memory as far as it is modelled: ranges of user memory with attributes. */
#ifndef KFDSIM_SVM_H
#define KFDSIM_SVM_H

#include "types.h"

/* Preferred and prefetch location are GPU ids as p knows them, or one of KFD_IOCTL_SVM_LOCATION_*. */
struct sim_svm_attrs {
	u32 preferred, prefetch, flags;
	u32 granularity;		/* log2 of pages */
	u64 access, in_place;		/* bit i: the process's GPU number i */
};

struct sim_svm_range {
	struct interval_tree_node it;	/* page numbers, the last one inclusive */
	struct sim_svm_attrs attrs;
};

/* svm_attrs.c */
void sim_svm_default_attrs(struct sim_svm_attrs *a);
int sim_svm_check_attrs(struct sim_process *p, const struct kfd_ioctl_svm_attribute *attrs, u32 n);
void sim_svm_apply_attrs(struct sim_process *p, struct sim_svm_attrs *a,
			 const struct kfd_ioctl_svm_attribute *attrs, u32 n);
int sim_svm_read_attrs(struct sim_process *p, const struct sim_svm_attrs *all, u32 flags_any,
		       struct kfd_ioctl_svm_attribute *attrs, u32 n);

/* svm_ranges.c */
int sim_svm_update(struct sim_process *p, u64 first, u64 last,
		   const struct kfd_ioctl_svm_attribute *attrs, u32 n);
struct sim_svm_range *sim_svm_first(struct sim_process *p, u64 first, u64 last);
struct sim_svm_range *sim_svm_next(struct sim_svm_range *r);

/* svm.c */
int sim_svm_set(struct sim_process *p, u64 start, u64 pages,
		const struct kfd_ioctl_svm_attribute *attrs, u32 n);

#endif
