// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * SVM ranges in the CRIU blob. RESTORE only keeps them: their memory is not mapped yet then.
 * RESUME sets them, before anything else.
 */
#include <linux/slab.h>

#include "criu/criu.h"
#include "kfdsim.h"
#include "memory/svm.h"

struct sim_svm_restored {
	struct list_head link;
	struct sim_criu_svm priv;
};

static u32 sim_svm_nr_attrs(struct sim_process *p)
{
	return SIM_CRIU_SVM_COMMON + p->nr_pdds;
}

static u64 sim_svm_record(struct sim_process *p)
{
	return sizeof(struct sim_criu_svm) +
	       sim_svm_nr_attrs(p) * sizeof(struct kfd_ioctl_svm_attribute);
}

/* Needs svm.lock. */
u64 sim_criu_svm_size(struct sim_process *p, u32 *nr)
{
	*nr += p->svm.nr_ranges;
	return p->svm.nr_ranges * sim_svm_record(p);
}

static void sim_svm_ask(struct sim_process *p, struct kfd_ioctl_svm_attribute *attrs)
{
	u32 i;

	attrs[0].type = KFD_IOCTL_SVM_ATTR_PREFERRED_LOC;
	attrs[1].type = KFD_IOCTL_SVM_ATTR_PREFETCH_LOC;
	attrs[2].type = KFD_IOCTL_SVM_ATTR_SET_FLAGS;
	attrs[3].type = KFD_IOCTL_SVM_ATTR_GRANULARITY;
	for (i = 0; i < p->nr_pdds; i++) {
		attrs[SIM_CRIU_SVM_COMMON + i].type = KFD_IOCTL_SVM_ATTR_ACCESS;
		attrs[SIM_CRIU_SVM_COMMON + i].value = p->pdds[i].user_gpu_id;
	}
}

/* Needs svm.lock; returns what follows the ranges in the blob. */
u8 *sim_criu_dump_svm(struct sim_process *p, u8 *at)
{
	struct sim_svm_range *r;

	for (r = sim_svm_first(p, 0, ULONG_MAX); r; r = sim_svm_next(r)) {
		struct sim_criu_svm *priv = (struct sim_criu_svm *)at;

		priv->object_type = SIM_CRIU_SVM;
		priv->start = r->it.start;
		priv->size = r->it.last - r->it.start + 1;
		sim_svm_ask(p, priv->attrs);
		sim_svm_read_attrs(p, &r->attrs, r->attrs.flags, priv->attrs, sim_svm_nr_attrs(p));
		at += sim_svm_record(p);
	}
	return at;
}

int sim_criu_load_svm(struct sim_load *l)
{
	struct sim_process *p = l->p;
	struct sim_svm_restored *restored;
	int ret;

	/* Without SVM there is nowhere to put it: kfd_svm.h:kfd_criu_restore_svm @ 6.12.117. */
	if (!p->kernel->svm)
		return -EINVAL;
	restored = kzalloc(offsetof(struct sim_svm_restored, priv) + sim_svm_record(p), GFP_KERNEL);
	if (!restored)
		return -ENOMEM;
	ret = sim_load_read(l, &restored->priv, sim_svm_record(p));
	if (ret)
		kfree(restored);
	else
		list_add_tail(&restored->link, &p->svm.restored);
	return ret;
}

static int sim_svm_resume_one(struct sim_process *p, const struct sim_criu_svm *priv)
{
	u32 i, n = 0, nr = sim_svm_nr_attrs(p), flags = 0;
	struct kfd_ioctl_svm_attribute *set;
	int ret;

	/* One more, as flags that are on by default have to be cleared. */
	set = kcalloc(nr + 1, sizeof(*set), GFP_KERNEL);
	if (!set)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		/* Nothing can be prefetched to an undefined place: the saved one is the default. */
		if (priv->attrs[i].type == KFD_IOCTL_SVM_ATTR_PREFETCH_LOC &&
		    priv->attrs[i].value == KFD_IOCTL_SVM_LOCATION_UNDEFINED)
			continue;
		if (priv->attrs[i].type == KFD_IOCTL_SVM_ATTR_SET_FLAGS)
			flags = priv->attrs[i].value;
		set[n++] = priv->attrs[i];
	}
	set[n].type = KFD_IOCTL_SVM_ATTR_CLR_FLAGS;
	set[n++].value = ~flags;
	ret = sim_svm_set(p, priv->start, priv->size, set, n);
	kfree(set);
	return ret;
}

void sim_criu_drop_svm(struct sim_process *p)
{
	struct sim_svm_restored *r, *next;

	list_for_each_entry_safe(r, next, &p->svm.restored, link) {
		list_del(&r->link);
		kfree(r);
	}
}

/* Needs p->lock. What cannot be set is forgotten as well: a second RESUME goes on without. */
int sim_criu_resume_svm(struct sim_process *p)
{
	struct sim_svm_restored *r;
	int ret = 0;

	list_for_each_entry(r, &p->svm.restored, link) {
		ret = sim_fault_criu(SIM_FAULT_SVM_RANGE) ?: sim_svm_resume_one(p, &r->priv);
		if (ret)
			break;
	}
	sim_criu_drop_svm(p);
	return ret;
}
