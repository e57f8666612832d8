// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Submissions that are not over. A thread executes each when its time has come, that is at its end: before that nobody
 * sees what it does, and what it reads may still change. All are in one order, by their ends, so none
 * is executed before one that it depends on.
 */
#include <linux/kthread.h>

#include "kfdsim.h"

#define SIM_LATE_NS	1000	/* less is rounding */

static LIST_HEAD(submissions);		/* by their ends */
static DEFINE_SPINLOCK(submissions_lock);
static DECLARE_WAIT_QUEUE_HEAD(submissions_wq);	/* one came, or one is over */
static struct task_struct *submissions_thread;
static struct sim_submission *submissions_current;	/* being executed */
static const struct sim_vm *submissions_vm;	/* of that one, until it is freed */
static unsigned int submissions_news;	/* counts those that came */

static struct sim_submission *sim_submission_first(void)
{
	return list_first_entry_or_null(&submissions, struct sim_submission, link);
}

struct sim_submission *sim_submission_alloc(u32 nr_ibs)
{
	return kzalloc(struct_size_t(struct sim_submission, ibs, nr_ibs), GFP_KERNEL);
}

void sim_submission_free(struct sim_submission *s)
{
	if (!s)
		return;
	if (s->fence)
		dma_fence_put(s->fence);
	if (s->ctx)
		sim_ctx_put(s->ctx);
	sim_bo_list_put(s->bos);
	kfree(s);
}

/* It belongs to the queue from now on. */
void sim_submission_queue(struct sim_submission *s)
{
	struct sim_submission *before;
	unsigned long flags;

	spin_lock_irqsave(&submissions_lock, flags);
	list_for_each_entry_reverse(before, &submissions, link)
		if (before->done <= s->done)
			break;
	/* Without one before it that is the head of the list. */
	list_add(&s->link, &before->link);
	submissions_news++;
	spin_unlock_irqrestore(&submissions_lock, flags);
	wake_up_all(&submissions_wq);
}

/* Have all that end at this time (ns, CLOCK_MONOTONIC) or before been executed? */
bool sim_submission_over(u64 when)
{
	struct sim_submission *first;
	unsigned long flags;
	bool over;

	if (when > ktime_get_ns())
		return false;
	spin_lock_irqsave(&submissions_lock, flags);
	first = sim_submission_first();
	over = !first || first->done > when;
	spin_unlock_irqrestore(&submissions_lock, flags);
	return over;
}

/* As sim_sleep_until(), and then until what was to end by then has been executed. */
int sim_submission_wait(u64 when, u64 deadline)
{
	int ret = sim_sleep_until(when, deadline);
	u64 now = ktime_get_ns();

	if (ret || sim_submission_over(when))
		return ret;
	if (deadline <= now)
		return -ETIME;
	ret = wait_event_interruptible_hrtimeout(submissions_wq, sim_submission_over(when),
						 ns_to_ktime(min_t(u64, deadline - now, KTIME_MAX)));
	return ret == -ETIME && sim_submission_over(when) ? 0 : ret;
}

static void sim_submission_execute(struct sim_submission *s)
{
	struct sim_sdma sdma = { .vm = s->vm, .engine = s->engine, .stop = &s->stop };
	int ret = 0;
	u32 i;

	for (i = 0; i < s->nr_ibs && !ret; i++)
		ret = sim_ib_execute(&sdma, s->bos, s->ibs[i].va, s->ibs[i].bytes);
	/* The engine is reset: the job ends, and only those who wait for it hear. */
	if (ret)
		sim_submission_fail(s, -ETIME);
	/* A rule of faults delays it. */
	if (sdma.ns > s->ns + SIM_LATE_NS && !READ_ONCE(s->stop))
		sim_sleep_until(ktime_get_ns() + sdma.ns - s->ns, U64_MAX);
}

/* Those who wait for it are told so. */
void sim_submission_fail(struct sim_submission *s, int error)
{
	sim_ctx_set_error(s->ctx, s->ring, s->seq, error);
	if (s->fence)
		dma_fence_set_error(s->fence, error);
}

/* The one whose time has come, or NULL and when the next one's has. */
static struct sim_submission *sim_submission_due(u64 *when, unsigned int *news)
{
	struct sim_submission *s;

	spin_lock_irq(&submissions_lock);
	s = sim_submission_first();
	*when = s ? s->done : KTIME_MAX;
	*news = submissions_news;
	if (s && s->done > ktime_get_ns())
		s = NULL;
	submissions_current = s;
	submissions_vm = s ? s->vm : NULL;
	spin_unlock_irq(&submissions_lock);
	return s;
}

/* Those who wait for it go on; those who close its file when nothing is left of it. */
static void sim_submission_end(struct sim_submission *s)
{
	spin_lock_irq(&submissions_lock);
	list_del(&s->link);
	submissions_current = NULL;
	spin_unlock_irq(&submissions_lock);
	wake_up_all(&submissions_wq);
	sim_submission_free(s);
	spin_lock_irq(&submissions_lock);
	submissions_vm = NULL;
	spin_unlock_irq(&submissions_lock);
	wake_up_all(&submissions_wq);
}

static int sim_submissions_run(void *unused)
{
	struct sim_submission *s;
	unsigned int news;
	u64 when, now;

	while (!kthread_should_stop()) {
		s = sim_submission_due(&when, &news);
		if (s) {
			sim_submission_execute(s);
			sim_submission_end(s);
			cond_resched();
			continue;
		}
		now = ktime_get_ns();
		if (when > now)
			wait_event_interruptible_hrtimeout(submissions_wq, kthread_should_stop() ||
							   READ_ONCE(submissions_news) != news,
							   ns_to_ktime(when - now));
	}
	return 0;
}

static bool sim_submissions_none(const struct sim_vm *vm)
{
	struct sim_submission *s;
	bool none;

	spin_lock_irq(&submissions_lock);
	none = submissions_vm != vm;
	list_for_each_entry(s, &submissions, link)
		if (s->vm == vm)
			none = false;
	spin_unlock_irq(&submissions_lock);
	return none;
}

/* Until no submission needs the address space: before something is taken out of it. */
void sim_submissions_flush(struct sim_vm *vm)
{
	wait_event(submissions_wq, sim_submissions_none(vm));
}

/* The address space goes: what was not executed will not be. */
void sim_submissions_cancel(struct sim_vm *vm)
{
	struct sim_submission *s, *next;
	LIST_HEAD(cancelled);

	spin_lock_irq(&submissions_lock);
	list_for_each_entry_safe(s, next, &submissions, link) {
		if (s->vm != vm)
			continue;
		if (s == submissions_current)
			WRITE_ONCE(s->stop, true);
		else
			list_move_tail(&s->link, &cancelled);
	}
	/* Before anybody can find it over. */
	list_for_each_entry(s, &cancelled, link)
		sim_submission_fail(s, -ECANCELED);
	spin_unlock_irq(&submissions_lock);
	wake_up_all(&submissions_wq);
	list_for_each_entry_safe(s, next, &cancelled, link)
		sim_submission_free(s);
	sim_submissions_flush(vm);
}

int sim_submissions_init(void)
{
	submissions_thread = kthread_run(sim_submissions_run, NULL, "kfdsim-sdma");
	return PTR_ERR_OR_ZERO(submissions_thread);
}

/* When no file is open any more. */
void sim_submissions_fini(void)
{
	kthread_stop(submissions_thread);
	WARN_ON(!list_empty(&submissions));
}
