// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Attributes of SVM ranges: which are valid, what setting and asking for them does. */
#include "memory/svm.h"
#include "kfdsim.h"

#define SIM_SVM_GRANULARITY	9	/* 2 MiB */
#define SIM_SVM_GRANULARITY_MAX	0x3f

/* Which bit of an access mask a GPU of p has; -EINVAL for an id that is none of its GPUs. */
static int sim_svm_gpu_index(struct sim_process *p, u32 gpu_id)
{
	struct sim_pdd *pdd = sim_pdd_by_id(p, gpu_id);

	return pdd ? pdd - p->pdds : -EINVAL;
}

void sim_svm_default_attrs(struct sim_svm_attrs *a)
{
	*a = (struct sim_svm_attrs){
		.preferred = KFD_IOCTL_SVM_LOCATION_UNDEFINED,
		.prefetch = KFD_IOCTL_SVM_LOCATION_UNDEFINED,
		.flags = KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT,
		.granularity = SIM_SVM_GRANULARITY,
	};
}

int sim_svm_check_attrs(struct sim_process *p, const struct kfd_ioctl_svm_attribute *attrs, u32 n)
{
	int ret = 0;
	u32 i;

	for (i = 0; i < n && !ret; i++) {
		u32 value = attrs[i].value;

		switch (attrs[i].type) {
		case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
			if (value == KFD_IOCTL_SVM_LOCATION_UNDEFINED)
				break;
			fallthrough;
		case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
			if (value == KFD_IOCTL_SVM_LOCATION_SYSMEM)
				break;
			fallthrough;
		case KFD_IOCTL_SVM_ATTR_ACCESS:
		case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
		case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
			ret = min(sim_svm_gpu_index(p, value), 0);
			break;
		case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
		case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
		case KFD_IOCTL_SVM_ATTR_GRANULARITY:
			break;
		default:
			ret = -EINVAL;
		}
	}
	return ret;
}

/* Set checked attributes, in the order given. */
void sim_svm_apply_attrs(struct sim_process *p, struct sim_svm_attrs *a,
			 const struct kfd_ioctl_svm_attribute *attrs, u32 n)
{
	u64 gpu;
	u32 i;

	for (i = 0; i < n; i++) {
		u32 type = attrs[i].type, value = attrs[i].value;

		switch (type) {
		case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
			a->preferred = value;
			break;
		case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
			a->prefetch = value;
			break;
		case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
			a->flags |= value;
			break;
		case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
			a->flags &= ~value;
			break;
		case KFD_IOCTL_SVM_ATTR_GRANULARITY:
			a->granularity = min_t(u32, value, SIM_SVM_GRANULARITY_MAX);
			break;
		default:
			gpu = BIT_ULL(sim_svm_gpu_index(p, value));
			a->access &= ~gpu;
			a->in_place &= ~gpu;
			if (type == KFD_IOCTL_SVM_ATTR_ACCESS)
				a->access |= gpu;
			else if (type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE)
				a->in_place |= gpu;
		}
	}
}

/*
 * Answer a query from what all ranges have in common; flags_any: set in at least one of them.
 * Whether a GPU has access is asked for with ACCESS and answered by changing the type.
 */
int sim_svm_read_attrs(struct sim_process *p, const struct sim_svm_attrs *all, u32 flags_any,
		       struct kfd_ioctl_svm_attribute *attrs, u32 n)
{
	int index;
	u32 i;

	for (i = 0; i < n; i++) {
		switch (attrs[i].type) {
		case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
			attrs[i].value = all->preferred;
			break;
		case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
			attrs[i].value = all->prefetch;
			break;
		case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
			attrs[i].value = all->flags;
			break;
		case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
			attrs[i].value = ~flags_any;
			break;
		case KFD_IOCTL_SVM_ATTR_GRANULARITY:
			attrs[i].value = all->granularity;
			break;
		case KFD_IOCTL_SVM_ATTR_ACCESS:
			index = sim_svm_gpu_index(p, attrs[i].value);
			if (index < 0)
				return -EINVAL;
			if (all->in_place & BIT_ULL(index))
				attrs[i].type = KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE;
			else if (!(all->access & BIT_ULL(index)))
				attrs[i].type = KFD_IOCTL_SVM_ATTR_NO_ACCESS;
			break;
		default:
			return -EINVAL;
		}
	}
	return 0;
}
