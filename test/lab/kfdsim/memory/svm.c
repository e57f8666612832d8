// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The SVM ioctl: a tree of ranges with attributes. Nothing is migrated and no GPU reaches memory through them. */
#include <linux/sched/mm.h>

#include "kfdsim.h"
#include "memory/svm.h"

/* Every page must belong to a mapping that is no device's: -EFAULT. */
static int sim_svm_check_vmas(struct sim_process *p, u64 first, u64 last)
{
	u64 at = first << PAGE_SHIFT, end = (last + 1) << PAGE_SHIFT;
	struct vm_area_struct *vma;
	int ret = 0;

	if (!mmget_not_zero(p->mm))
		return -ESRCH;
	mmap_read_lock(p->mm);
	while (at < end && !ret) {
		vma = vma_lookup(p->mm, at);
		if (!vma || vma->vm_flags & (VM_IO | VM_PFNMAP | VM_MIXEDMAP))
			ret = -EFAULT;
		else
			at = vma->vm_end;
	}
	mmap_read_unlock(p->mm);
	mmput_async(p->mm);
	return ret;
}

/* Not where user memory can be, or wrapping around: no mapping is there. */
static int sim_svm_check_range(struct sim_process *p, u64 start, u64 pages)
{
	if (!pages || start >= TASK_SIZE_MAX >> PAGE_SHIFT ||
	    pages > (TASK_SIZE_MAX >> PAGE_SHIFT) - start)
		return -EFAULT;
	return sim_svm_check_vmas(p, start, start + pages - 1);
}

static bool sim_svm_is_taken(struct sim_process *p, u64 va, u64 size)
{
	struct sim_pdd *pdd;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		if (pdd->vm && sim_vm_overlaps(pdd->vm, va, size))
			return true;
	return false;
}

/* start in pages. Needs p->lock. -EADDRINUSE where a buffer object is mapped. */
int sim_svm_set(struct sim_process *p, u64 start, u64 pages,
		const struct kfd_ioctl_svm_attribute *attrs, u32 n)
{
	int ret = sim_svm_check_attrs(p, attrs, n);

	if (!ret)
		ret = sim_svm_check_range(p, start, pages);
	if (!ret && sim_svm_is_taken(p, start << PAGE_SHIFT, pages << PAGE_SHIFT))
		ret = -EADDRINUSE;
	if (ret)
		return ret;
	mutex_lock(&p->svm.lock);
	ret = sim_svm_update(p, start, start + pages - 1, attrs, n);
	mutex_unlock(&p->svm.lock);
	return ret;
}

/* What the ranges have in common, in a; *flags_any: set in at least one of them. */
static void sim_svm_common(struct sim_process *p, u64 first, u64 last, struct sim_svm_attrs *a,
			   u32 *flags_any)
{
	struct sim_svm_range *r = sim_svm_first(p, first, last);

	sim_svm_default_attrs(a);
	*flags_any = a->flags;
	if (!r)
		return;
	*a = r->attrs;
	*flags_any = a->flags;
	while ((r = sim_svm_next(r)) && r->it.start <= last) {
		if (r->attrs.preferred != a->preferred)
			a->preferred = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
		if (r->attrs.prefetch != a->prefetch)
			a->prefetch = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
		a->flags &= r->attrs.flags;
		*flags_any |= r->attrs.flags;
		a->granularity = min(a->granularity, r->attrs.granularity);
		a->access &= r->attrs.access;
		a->in_place &= r->attrs.in_place;
	}
}

static int sim_svm_get(struct sim_process *p, u64 start, u64 pages,
		       struct kfd_ioctl_svm_attribute *attrs, u32 n)
{
	struct sim_svm_attrs common;
	int ret = sim_svm_check_range(p, start, pages);
	u32 flags_any;

	if (ret)
		return ret;
	mutex_lock(&p->svm.lock);
	sim_svm_common(p, start, start + pages - 1, &common, &flags_any);
	mutex_unlock(&p->svm.lock);
	return sim_svm_read_attrs(p, &common, flags_any, attrs, n);
}

/* The one ioctl of variable length: did the caller pass as many attributes as it says? */
bool sim_svm_args_fit(const void *data, unsigned int size)
{
	const struct kfd_ioctl_svm_args *args = data;

	return size >= sizeof(*args) && args->nattr <= (size - sizeof(*args)) / sizeof(args->attrs[0]);
}

int sim_kfd_svm(struct sim_process *p, void *data)
{
	struct kfd_ioctl_svm_args *args = data;
	u64 start = args->start_addr >> PAGE_SHIFT, pages = args->size >> PAGE_SHIFT;
	int ret;

	/* A kernel without CONFIG_HSA_AMD_SVM: kfd_chardev.c:kfd_ioctl_svm @ 6.12.117. */
	if (!p->kernel->svm)
		return -EPERM;
	if (!start || !pages || (args->start_addr | args->size) & ~PAGE_MASK)
		return -EINVAL;
	mutex_lock(&p->lock);
	if (p->dead)
		ret = -ESRCH;
	else if (args->op == KFD_IOCTL_SVM_OP_SET_ATTR)
		ret = sim_svm_set(p, start, pages, args->attrs, args->nattr);
	else if (args->op == KFD_IOCTL_SVM_OP_GET_ATTR)
		ret = sim_svm_get(p, start, pages, args->attrs, args->nattr);
	else
		ret = -EINVAL;
	mutex_unlock(&p->lock);
	return ret;
}

/* Is part of these bytes in an SVM range? Buffer objects cannot be there too. */
bool sim_svm_covers(struct sim_process *p, u64 va, u64 size)
{
	bool covers;

	if (va + size <= va)
		return false;
	mutex_lock(&p->svm.lock);
	covers = sim_svm_first(p, va >> PAGE_SHIFT, (va + size - 1) >> PAGE_SHIFT);
	mutex_unlock(&p->svm.lock);
	return covers;
}
