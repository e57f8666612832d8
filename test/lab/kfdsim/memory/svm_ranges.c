// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Ranges of shared virtual memory: how calls and munmap split them. They follow munmap(), so svm.lock is taken below
 * mmap_lock and nothing under it may wait for memory.
 */
#include <linux/mmu_notifier.h>

#include "kfdsim.h"
#include "memory/svm.h"

/* Longest range made at once, in pages: kfd_svm.c:svm_range_set_max_pages @ 7.2.13. */
#define SIM_SVM_PAGES_MIN	(1ULL << 9)
#define SIM_SVM_PAGES_MAX	(1ULL << 18)

void sim_svm_init(struct sim_process *p)
{
	mutex_init(&p->svm.lock);
	p->svm.ranges = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&p->svm.restored);
}

struct sim_svm_range *sim_svm_first(struct sim_process *p, u64 first, u64 last)
{
	struct interval_tree_node *it = interval_tree_iter_first(&p->svm.ranges, first, last);

	return it ? container_of(it, struct sim_svm_range, it) : NULL;
}

/* In order of address. */
struct sim_svm_range *sim_svm_next(struct sim_svm_range *r)
{
	struct interval_tree_node *it = interval_tree_iter_next(&r->it, 0, ULONG_MAX);

	return it ? container_of(it, struct sim_svm_range, it) : NULL;
}

static int sim_svm_insert(struct sim_process *p, u64 first, u64 last,
			  const struct sim_svm_attrs *attrs)
{
	struct sim_svm_range *r = kzalloc(sizeof(*r), GFP_NOWAIT | __GFP_NOWARN);

	if (!r)
		return -ENOMEM;
	r->it.start = first;
	r->it.last = last;
	r->attrs = *attrs;
	interval_tree_insert(&r->it, &p->svm.ranges);
	p->svm.nr_ranges++;
	atomic64_inc(&sim_count.svm_ranges);
	return 0;
}

static void sim_svm_delete(struct sim_process *p, struct sim_svm_range *r)
{
	interval_tree_remove(&r->it, &p->svm.ranges);
	p->svm.nr_ranges--;
	atomic64_dec(&sim_count.svm_ranges);
	kfree(r);
}

static void sim_svm_resize(struct sim_process *p, struct sim_svm_range *r, u64 first, u64 last)
{
	interval_tree_remove(&r->it, &p->svm.ranges);
	r->it.start = first;
	r->it.last = last;
	interval_tree_insert(&r->it, &p->svm.ranges);
}

static u64 sim_svm_max_pages(void)
{
	u64 pages = SIM_SVM_PAGES_MAX;
	unsigned int i;

	for (i = 0; i < sim.nr_gpus; i++)
		pages = min(pages, sim.gpus[i].vram_bytes >> 17);
	return rounddown_pow_of_two(max(pages, SIM_SVM_PAGES_MIN));
}

/* Where there was no range: pieces that end at multiples of the longest length. */
static int sim_svm_add(struct sim_process *p, u64 first, u64 last,
		       const struct sim_svm_attrs *attrs)
{
	u64 max = sim_svm_max_pages(), end;
	int ret = 0;

	for (; first <= last && !ret; first = end + 1) {
		end = min(last, round_down(first + max, max) - 1);
		ret = sim_svm_insert(p, first, end, attrs);
	}
	return ret;
}

/* Give the part of r in [first, last] these attributes; the rest keeps what it has. */
static int sim_svm_change(struct sim_process *p, struct sim_svm_range *r, u64 first, u64 last,
			  const struct sim_svm_attrs *attrs)
{
	u64 start = r->it.start, end = r->it.last;
	int ret = 0;

	if (!memcmp(attrs, &r->attrs, sizeof(*attrs)))
		return 0;
	if (start < first) {
		ret = sim_svm_insert(p, start, first - 1, &r->attrs);
		if (ret)
			return ret;
		sim_svm_resize(p, r, first, end);
	}
	if (end > last) {
		ret = sim_svm_insert(p, last + 1, end, &r->attrs);
		if (ret)
			return ret;
		sim_svm_resize(p, r, max(start, first), last);
	}
	r->attrs = *attrs;
	return 0;
}

int sim_svm_update(struct sim_process *p, u64 first, u64 last,
			  const struct kfd_ioctl_svm_attribute *attrs, u32 n)
{
	struct sim_svm_attrs fresh, changed;
	struct sim_svm_range *r;
	int ret = 0;
	u64 end;

	sim_svm_default_attrs(&fresh);
	sim_svm_apply_attrs(p, &fresh, attrs, n);
	for (; first <= last && !ret; first = end + 1) {
		r = sim_svm_first(p, first, last);
		if (!r || r->it.start > first) {
			end = r ? r->it.start - 1 : last;
			ret = sim_svm_add(p, first, end, &fresh);
			continue;
		}
		end = min(last, (u64)r->it.last);
		changed = r->attrs;
		sim_svm_apply_attrs(p, &changed, attrs, n);
		ret = sim_svm_change(p, r, first, last, &changed);
	}
	return ret;
}

static void sim_svm_trim(struct sim_process *p, u64 first, u64 last)
{
	struct sim_svm_range *r;

	while ((r = sim_svm_first(p, first, last))) {
		u64 start = r->it.start, end = r->it.last;

		/* Without memory for it the part behind the hole loses its attributes. */
		if (start < first && end > last && sim_svm_insert(p, last + 1, end, &r->attrs))
			pr_warn_ratelimited("an SVM range was cut short\n");
		if (start < first)
			sim_svm_resize(p, r, start, first - 1);
		else if (end > last)
			sim_svm_resize(p, r, last + 1, end);
		else
			sim_svm_delete(p, r);
	}
}

/* Memory is unmapped: called with mmap_lock held. -EAGAIN if that may not be waited for. */
int sim_svm_unmapped(struct sim_process *p, const struct mmu_notifier_range *range)
{
	if (range->event != MMU_NOTIFY_UNMAP || !READ_ONCE(p->svm.nr_ranges))
		return 0;
	if (mmu_notifier_range_blockable(range))
		mutex_lock(&p->svm.lock);
	else if (!mutex_trylock(&p->svm.lock))
		return -EAGAIN;
	sim_svm_trim(p, range->start >> PAGE_SHIFT, (range->end - 1) >> PAGE_SHIFT);
	mutex_unlock(&p->svm.lock);
	return 0;
}

void sim_svm_free(struct sim_process *p)
{
	sim_svm_trim(p, 0, ULONG_MAX);
}
