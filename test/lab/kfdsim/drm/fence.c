// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Submissions as dma_fences: signalled at the time at which the time model says the
 * submission ends. For syncobjs and sync files; WAIT_CS sleeps by the time alone.
 */
#include "kernels.h"
#include "kfdsim.h"

#define SIM_LATE_US 100	/* between two looks at whether a submission that is due has been executed */

struct sim_fence {
	struct dma_fence base;
	spinlock_t lock;
	u64 done;			/* ns, CLOCK_MONOTONIC */
	struct hrtimer timer;
};

static const char *sim_fence_driver_name(struct dma_fence *fence)
{
	return "amdgpu";
}

static const char *sim_fence_timeline_name(struct dma_fence *fence)
{
	return "sdma";
}

static bool sim_fence_signaled(struct dma_fence *fence)
{
	return sim_submission_over(container_of(fence, struct sim_fence, base)->done);
}

/* The timer has a reference: nobody else may be left when it fires. */
static enum hrtimer_restart sim_fence_fire(struct hrtimer *timer)
{
	struct sim_fence *f = container_of(timer, struct sim_fence, timer);

	/* Its time has come, but it is still being executed. */
	if (!sim_submission_over(f->done)) {
		hrtimer_forward_now(timer, ns_to_ktime(SIM_LATE_US * NSEC_PER_USEC));
		return HRTIMER_RESTART;
	}
	dma_fence_signal(&f->base);
	dma_fence_put(&f->base);
	return HRTIMER_NORESTART;
}

static bool sim_fence_enable_signaling(struct dma_fence *fence)
{
	struct sim_fence *f = container_of(fence, struct sim_fence, base);

	if (sim_fence_signaled(fence))
		return false;
	dma_fence_get(fence);
	hrtimer_start(&f->timer, ns_to_ktime(f->done), HRTIMER_MODE_ABS);
	return true;
}

static void sim_fence_release(struct dma_fence *fence)
{
	atomic64_dec(&sim_count.fences);
	dma_fence_free(fence);
	module_put(THIS_MODULE);
}

static const struct dma_fence_ops sim_fence_ops = {
	.get_driver_name = sim_fence_driver_name,
	.get_timeline_name = sim_fence_timeline_name,
	.enable_signaling = sim_fence_enable_signaling,
	.signaled = sim_fence_signaled,
	.release = sim_fence_release,
};

/* Memory for a fence, so that nothing can fail once a submission has run. NULL: none left. */
struct sim_fence *sim_fence_alloc(void)
{
	/* dma_fence_free() takes it back as a dma_fence. */
	BUILD_BUG_ON(offsetof(struct sim_fence, base));
	return kzalloc(sizeof(struct sim_fence), GFP_KERNEL);
}

/* Give it back unused. */
void sim_fence_discard(struct sim_fence *f)
{
	kfree(f);
}

/* done: ns, CLOCK_MONOTONIC; error: 0 or -errno. The one reference is the caller's. */
struct dma_fence *sim_fence_start(struct sim_fence *f, u64 context, u64 seq, u64 done, int error)
{
	/* Sync files may outlive every open file of the device. */
	__module_get(THIS_MODULE);
	atomic64_inc(&sim_count.fences);
	spin_lock_init(&f->lock);
	f->done = done;
	hrtimer_setup(&f->timer, sim_fence_fire, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	dma_fence_init(&f->base, &sim_fence_ops, &f->lock, context, seq);
	if (error)
		dma_fence_set_error(&f->base, error);
	return &f->base;
}

/* When does a fence of this driver signal? -EINVAL for one of another. */
int sim_fence_done(struct dma_fence *fence, u64 *done)
{
	if (fence->ops != &sim_fence_ops)
		return -EINVAL;
	*done = container_of(fence, struct sim_fence, base)->done;
	return 0;
}
