// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Pages that no BO has. As with KFD's VRAM (AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE in
 * amdgpu_amdkfd_gpuvm.c) memory is wiped when it is given back, and who gets it does not wait for
 * that: RESTORE would otherwise take as long as a processor needs to clear all it makes.
 *
 * Pages come from alloc_pages() without __GFP_ACCOUNT: like real VRAM they are not charged to the
 * memory cgroup of the process that asked for them. The machine gets them back when it is short.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/shrinker.h>

#include "kernels.h"
#include "kfdsim.h"

/* Pages between two looks at whether somebody else needs the processor or the lock. */
#define SIM_PAGES_BATCH 512UL

static LIST_HEAD(wiped);
static DEFINE_SPINLOCK(wiped_lock);
static unsigned long wiped_pages;
static struct shrinker *shrinker;

/* Moves up to n wiped pages to pages; returns how many. */
static unsigned long sim_pages_reuse(struct page **pages, unsigned long n)
{
	unsigned long got;

	spin_lock(&wiped_lock);
	for (got = 0; got < n && wiped_pages; got++, wiped_pages--) {
		pages[got] = list_first_entry(&wiped, struct page, lru);
		list_del(&pages[got]->lru);
	}
	spin_unlock(&wiped_lock);
	return got;
}

/* Fills pages, all NULL, with n zeroed ones; what an error leaves is for sim_pages_discard(). */
int sim_pages_take(struct page **pages, unsigned long n)
{
	/* A BO larger than the machine must fail, not wake the OOM killer. */
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
	unsigned long done = 0, want, got;

	while (done < n) {
		want = min(n - done, SIM_PAGES_BATCH);
		got = sim_pages_reuse(pages + done, want);
		if (!got)
			got = alloc_pages_bulk(gfp, want, pages + done);
		if (!got)
			return -ENOMEM;
		done += got;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* Wipes n pages, which a BO had. */
void sim_pages_give(struct page **pages, unsigned long n)
{
	unsigned long done, i, some;

	for (done = 0; done < n; done += some) {
		some = min(n - done, SIM_PAGES_BATCH);
		for (i = done; i < done + some; i++)
			clear_highpage(pages[i]);
		spin_lock(&wiped_lock);
		for (i = done; i < done + some; i++)
			list_add(&pages[i]->lru, &wiped);
		wiped_pages += some;
		spin_unlock(&wiped_lock);
		cond_resched();
	}
}

/* Those of n pages that are there go back to the machine. */
void sim_pages_discard(struct page **pages, unsigned long n)
{
	unsigned long i;

	for (i = 0; i < n; i++) {
		if (pages[i])
			__free_page(pages[i]);
		if (!(i % SIM_PAGES_BATCH))
			cond_resched();
	}
}

static unsigned long sim_pages_count(struct shrinker *s, struct shrink_control *control)
{
	return READ_ONCE(wiped_pages) ?: SHRINK_EMPTY;
}

static unsigned long sim_pages_shrink(struct shrinker *s, struct shrink_control *control)
{
	struct page *pages[32];
	unsigned long freed = 0, got;

	while (freed < control->nr_to_scan) {
		got = sim_pages_reuse(pages, min(control->nr_to_scan - freed, ARRAY_SIZE(pages)));
		if (!got)
			break;
		sim_pages_discard(pages, got);
		freed += got;
	}
	atomic64_add(freed, &sim_count.pages_returned);
	return freed ?: SHRINK_STOP;
}

int sim_pages_init(void)
{
	shrinker = shrinker_alloc(0, "kfdsim-pages");
	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = sim_pages_count;
	shrinker->scan_objects = sim_pages_shrink;
	shrinker_register(shrinker);
	return 0;
}

/* When no BO is left. */
void sim_pages_fini(void)
{
	struct page *pages[32];
	unsigned long got;

	shrinker_free(shrinker);
	while ((got = sim_pages_reuse(pages, ARRAY_SIZE(pages))))
		sim_pages_discard(pages, got);
}
