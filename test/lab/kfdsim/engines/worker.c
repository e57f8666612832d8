// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The engine behind user queues: one kernel thread per process. It sleeps until a doorbell
 * faults, a packet's time is over or a queue is changed. It polls for a moment after
 * anything happened, and for as long as a packet waits for memory.
 */
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/minmax.h>
#include <linux/sched/mm.h>

#include "kfdsim.h"

#define SIM_BURST		32	/* packets of one queue before the next gets a turn */
#define SIM_TICK_NS		(100 * NSEC_PER_USEC)
/* So long after the last event doorbells are polled before they are made to fault. */
#define SIM_BUSY_NS		(2 * NSEC_PER_MSEC)
/* Looking for a word of memory gets lazier the longer nothing happened. */
#define SIM_RECENT_NS		(20 * NSEC_PER_MSEC)
#define SIM_LAZY_NS		(500 * NSEC_PER_MSEC)

/* What one look at all queues found. */
struct sim_look {
	bool did;			/* something: look again at once */
	bool stopped;			/* evicted, or the mm is gone */
	bool memory;			/* a packet waits for a word of memory */
	u64 next;			/* ns: the first time something is due, or U64_MAX */
};

/* Wake the worker. From any context that may wake a task. */
void sim_worker_kick(struct sim_process *p)
{
	/* Paired with the xchg() in sim_worker(). */
	smp_store_release(&p->kicked, true);
	wake_up(&p->worker_wq);
}

/* Take run_lock. The worker holds it for many packets, but gives it up after each if asked. */
void sim_run_lock(struct sim_process *p)
{
	atomic_inc(&p->run_waiters);
	mutex_lock(&p->run_lock);
	atomic_dec(&p->run_waiters);
}

static void sim_worker_queue(struct sim_process *p, struct sim_queue *q, struct sim_look *look)
{
	int i;

	for (i = 0; i < SIM_BURST && !atomic_read(&p->run_waiters); i++) {
		switch (sim_queue_step(p, q, ktime_get_ns())) {
		case SIM_STEP_DONE:
			look->did = true;
			continue;
		case SIM_STEP_TIME:
			look->next = min(look->next, q->ready_at);
			return;
		case SIM_STEP_MEMORY:
			look->memory = true;
			return;
		case SIM_STEP_IDLE:
			return;
		}
	}
	look->did = true;
}

static void sim_worker_look(struct sim_process *p, struct sim_look *look)
{
	bool alive = mmget_not_zero(p->mm);
	struct sim_queue *q;

	*look = (struct sim_look){ .next = U64_MAX, .stopped = true };
	/* A dying process has no userptr pages any more: that is no fault of its queues. */
	if (!alive && !READ_ONCE(p->outlives))
		return;
	mutex_lock(&p->run_lock);
	look->stopped = p->evicted;
	if (!look->stopped)
		list_for_each_entry(q, &p->queues, link)
			sim_worker_queue(p, q, look);
	mutex_unlock(&p->run_lock);
	if (alive)
		mmput_async(p->mm);
}

/* Until a time (ns, U64_MAX: none), a kick or the end. */
static void sim_worker_sleep(struct sim_process *p, u64 until)
{
	ktime_t expires = ns_to_ktime(min_t(u64, until, KTIME_MAX));
	DEFINE_WAIT(wait);

	prepare_to_wait(&p->worker_wq, &wait, TASK_IDLE);
	if (!smp_load_acquire(&p->kicked) && !kthread_should_stop())
		schedule_hrtimeout_range(until == U64_MAX ? NULL : &expires, SIM_TICK_NS / 4,
					 HRTIMER_MODE_ABS);
	finish_wait(&p->worker_wq, &wait);
}

/*
 * No time at all where timers end with a tick of milliseconds alone: what is rung while the
 * worker sleeps would wait for that.
 */
static u64 sim_busy_ns(void)
{
	return hrtimer_resolution > SIM_TICK_NS ? 0 : SIM_BUSY_NS;
}

static void sim_worker_poll(struct sim_process *p, u64 now, u64 idle, u64 next)
{
	u64 ns = idle < SIM_RECENT_NS ? SIM_TICK_NS : idle < SIM_LAZY_NS ? 5 * SIM_TICK_NS :
								   20 * SIM_TICK_NS;

	atomic64_inc(&sim_count.queue_polls);
	sim_worker_sleep(p, min(now + ns, next));
}

static int sim_worker(void *arg)
{
	struct sim_process *p = arg;
	struct sim_look look;
	bool armed = false;
	u64 last = 0, now;

	while (!kthread_should_stop()) {
		/* A kick may come from a doorbell, which then does not fault any more. */
		if (xchg(&p->kicked, false)) {
			armed = false;
			last = ktime_get_ns();
		}
		sim_worker_look(p, &look);
		now = ktime_get_ns();
		if (look.stopped) {
			sim_worker_sleep(p, U64_MAX);
		} else if (look.did) {
			last = now;
			cond_resched();
		} else if (!armed && now - last >= sim_busy_ns()) {
			/* Once more after this: one may have been rung just before. */
			sim_doorbell_arm(p);
			armed = true;
		} else if (!armed || look.memory) {
			sim_worker_poll(p, now, now - last, look.next);
		} else {
			sim_worker_sleep(p, look.next);
		}
	}
	return 0;
}

/* Start the worker of p if it does not run yet. Needs p->lock. */
int sim_worker_start(struct sim_process *p)
{
	struct task_struct *task;

	if (p->worker)
		return 0;
	task = kthread_run(sim_worker, p, "kfdsim-%d", task_pid_nr(p->lead));
	if (IS_ERR(task))
		return PTR_ERR(task);
	p->worker = task;
	return 0;
}

/* After this no packet is executed any more. p is dead, so no new worker can start. */
void sim_worker_stop(struct sim_process *p)
{
	if (p->worker)
		kthread_stop(p->worker);
	p->worker = NULL;
}
