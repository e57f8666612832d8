// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * One thread for each GPU does the work of its hardware. Engines work side by side: each is busy until some time, and
 * the thread serves them in turn. It sleeps until a doorbell rings or until the first of these times.
 */
#include <linux/kthread.h>
#include <linux/sched/clock.h>

#include "sim.h"

#include "control.h"

static struct sim_gpu *gpus[SIM_GPUS];

struct sim_gpu *sim_gpu_at(unsigned int index)
{
	return index < SIM_GPUS ? gpus[index] : NULL;
}

struct sim_gpu *sim_gpu(struct amdgpu_device *adev)
{
	int i;

	for (i = 0; i < SIM_GPUS; i++)
		if (gpus[i] && gpus[i]->adev == adev)
			return gpus[i];
	return NULL;
}

/* The clock has 100 MHz, like that of gfx9. */
u64 sim_clock(void)
{
	return div_u64(ktime_get_ns(), 10);
}

void sim_wake(struct sim_gpu *g)
{
	WRITE_ONCE(g->rung, true);
	wake_up(&g->wake);
}

void sim_wake_all(void)
{
	int i;

	for (i = 0; i < SIM_GPUS; i++)
		if (gpus[i])
			sim_wake(gpus[i]);
}

void sim_wake_at(struct sim_gpu *g, u64 ns)
{
	g->wake_at = min(g->wake_at, ns);
}

static void sim_sleep(struct sim_gpu *g)
{
	u64 now = ktime_get_ns();

	if (g->wake_at == SIM_NEVER)
		wait_event_interruptible(g->wake, READ_ONCE(g->rung) || kthread_should_stop());
	else if (g->wake_at > now)
		wait_event_interruptible_hrtimeout(g->wake, READ_ONCE(g->rung) || kthread_should_stop(),
						   ns_to_ktime(g->wake_at - now));
}

/* Serves everything once. Returns true when something happened, so there may be more. */
static bool sim_turn(struct sim_gpu *g)
{
	bool more = sim_rings_run(g);

	more |= sim_scheduler_run(g);
	more |= sim_queues_run(g);
	return more;
}

static int sim_thread(void *data)
{
	struct sim_gpu *g = data;
	bool more;

	while (!kthread_should_stop()) {
		sim_sleep(g);
		WRITE_ONCE(g->rung, false);
		mutex_lock(&g->lock);
		g->wake_at = SIM_NEVER;
		more = sim_turn(g);
		if (!more && sim_doorbells_expired(g)) {
			sim_doorbells_close(g);
			more = true;	/* sees writes from just before */
		}
		if (more)
			g->wake_at = 0;
		mutex_unlock(&g->lock);
		cond_resched();
	}
	return 0;
}

int sim_gpu_start(struct amdgpu_device *adev, const struct sim_chip *chip)
{
	struct sim_gpu *g = kvzalloc(sizeof(*g), GFP_KERNEL);
	unsigned int i;

	if (!g)
		return -ENOMEM;
	for (i = 0; i < SIM_GPUS && gpus[i]; i++)
		;
	if (i == SIM_GPUS) {
		kvfree(g);
		return -ENOSPC;
	}
	g->adev = adev;
	g->chip = chip;
	g->index = i;
	init_waitqueue_head(&g->wake);
	mutex_init(&g->lock);
	sim_kfd_calls(chip);
	sim_control_start();
	gpus[i] = g;
	g->thread = kthread_run(sim_thread, g, "sim-gpu%u", i);
	return PTR_ERR_OR_ZERO(g->thread);
}

/* Runs after a reset, before the driver restarts its rings and KFD its queues. Interrupted work does not continue. */
void sim_gpu_reset(struct amdgpu_device *adev)
{
	struct sim_gpu *g = sim_gpu(adev);
	int hub;

	mutex_lock(&g->lock);
	memset(g->ring, 0, sizeof(g->ring));
	memset(g->queue, 0, sizeof(g->queue));
	memset(g->scheduler, 0, sizeof(g->scheduler));
	g->ih_wptr = 0;
	for (hub = 0; hub < SIM_HUBS; hub++)
		sim_tlb_flush(g, hub, GENMASK(SIM_VMIDS - 1, 0));
	mutex_unlock(&g->lock);
}

void sim_gpu_stop(struct amdgpu_device *adev)
{
	struct sim_gpu *g = sim_gpu(adev);

	if (!g)
		return;
	if (!IS_ERR_OR_NULL(g->thread))
		kthread_stop(g->thread);
	gpus[g->index] = NULL;
	kvfree(g);
	sim_control_stop();
}
