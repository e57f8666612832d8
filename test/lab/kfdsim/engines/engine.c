// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Time model of the SDMA engines. Bytes are moved first; what takes time is the report that
 * they have been: an engine is busy until a timestamp, what comes later queues behind it.
 */
#include <linux/hrtimer.h>

#include "kfdsim.h"

#define SIM_IN_FLIGHT_MAX 1024

struct sim_engine {
	spinlock_t lock;
	u64 busy_until;			/* ns, CLOCK_MONOTONIC */
	/* Ends of submissions not yet over; ends of one engine never decrease. */
	u64 ends[SIM_IN_FLIGHT_MAX];
	u32 head, tail;
};

int sim_engines_init(struct sim_gpu *gpu)
{
	unsigned int i;

	gpu->engines = kvcalloc(sim_num_engines(gpu), sizeof(*gpu->engines), GFP_KERNEL);
	if (!gpu->engines)
		return -ENOMEM;
	for (i = 0; i < sim_num_engines(gpu); i++)
		spin_lock_init(&gpu->engines[i].lock);
	return 0;
}

void sim_engines_fini(struct sim_gpu *gpu)
{
	kvfree(gpu->engines);
}

/* Whose VRAM is it? NULL for memory that is none. */
static struct sim_gpu *sim_vram_owner(struct sim_vm *vm, u64 va, bool write)
{
	struct sim_gpu *gpu;
	struct sim_bo *bo;
	u64 offset, left;

	if (sim_vm_resolve(vm, va, write, &bo, &offset, &left))
		return NULL;
	gpu = bo->kind == SIM_BO_VRAM ? sim_bo_gpu(bo) : NULL;
	sim_bo_put(bo);
	return gpu;
}

static bool sim_in_vram(struct sim_vm *vm, u64 va, bool write)
{
	return sim_vram_owner(vm, va, write) == vm->gpu;
}

/* In another GPU's VRAM, behind a link? */
static bool sim_in_peer(struct sim_vm *vm, u64 va, bool write)
{
	struct sim_gpu *owner = sim_vram_owner(vm, va, write);

	return owner && owner != vm->gpu;
}

static enum sim_reach sim_reach(bool vram, bool peer)
{
	return vram ? SIM_REACH_VRAM : peer ? SIM_REACH_PEER : SIM_REACH_SYSTEM;
}

/* Engine time of a copy; where its first bytes are decides about the rate. */
u64 sim_copy_ns(const struct sim_sdma *s, u64 dst, u64 src, u64 bytes)
{
	bool vram = sim_in_vram(s->vm, dst, true) && sim_in_vram(s->vm, src, false);
	bool peer = sim_in_peer(s->vm, dst, true) || sim_in_peer(s->vm, src, false);

	return sim_rate_ns(s->engine, sim_reach(vram, peer), bytes);
}

u64 sim_fill_ns(const struct sim_sdma *s, u64 dst, u64 bytes)
{
	return sim_rate_ns(s->engine, sim_reach(sim_in_vram(s->vm, dst, true), sim_in_peer(s->vm, dst, true)), bytes);
}

/* Book ns of work that may not start before begin; returns when it ends (ns). */
u64 sim_engine_run(struct sim_gpu *gpu, unsigned int engine, u64 begin, u64 ns)
{
	struct sim_engine *e = &gpu->engines[engine];
	u64 done;

	spin_lock(&e->lock);
	done = max(begin, e->busy_until) + ns;
	e->busy_until = done;
	spin_unlock(&e->lock);
	return done;
}

/* When is it free? ns, CLOCK_MONOTONIC. */
u64 sim_engine_busy_until(const struct sim_gpu *gpu, unsigned int engine)
{
	return READ_ONCE(gpu->engines[engine].busy_until);
}

static u32 sim_engine_in_flight(struct sim_engine *e, u64 now)
{
	while (e->head != e->tail && e->ends[e->head % SIM_IN_FLIGHT_MAX] <= now)
		e->head++;
	return e->tail - e->head;
}

/* Count a submission and how many of its GPU were unfinished at the same time. */
void sim_engine_note_cs(struct sim_gpu *gpu, unsigned int engine, u64 done)
{
	u64 now = ktime_get_ns();
	s64 total = 0, old;
	unsigned int i;

	for (i = 0; i < sim_num_engines(gpu); i++) {
		struct sim_engine *e = &gpu->engines[i];

		spin_lock(&e->lock);
		if (i == engine && sim_engine_in_flight(e, now) < SIM_IN_FLIGHT_MAX)
			e->ends[e->tail++ % SIM_IN_FLIGHT_MAX] = done;
		total += sim_engine_in_flight(e, now);
		spin_unlock(&e->lock);
	}
	/* One that is over already was still one in flight while it was submitted. */
	total = max(total, 1);
	atomic64_inc(&sim_count.cs_submitted);
	old = atomic64_read(&sim_count.cs_max_in_flight);
	while (total > old && !atomic64_try_cmpxchg(&sim_count.cs_max_in_flight, &old, total))
		;
}

/*
 * Sleep until when (ns, CLOCK_MONOTONIC). 0 once it has passed, -ETIME if deadline comes
 * first, -ERESTARTSYS on a signal.
 */
int sim_sleep_until(u64 when, u64 deadline)
{
	for (;;) {
		u64 now = ktime_get_ns();
		ktime_t wake;

		if (when <= now)
			return 0;
		if (deadline <= now)
			return -ETIME;
		if (signal_pending(current))
			return -ERESTARTSYS;
		wake = ns_to_ktime(min3(when, deadline, (u64)KTIME_MAX));
		set_current_state(TASK_INTERRUPTIBLE);
		schedule_hrtimeout(&wake, HRTIMER_MODE_ABS);
	}
}
