// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Queues of a process stop and go on: evictions are counted, and how long they were. */
#include <linux/jiffies.h>

#include "kfdsim.h"

/*
 * Stop the queues of p once more than they are stopped already. Needs p->run_lock. The time of an eviction that begins
 * without a VM is reckoned from 0: kfd_device_queue_manager.c:evict_process_queues_cpsch @ 6.12.117 leaves before it
 * notes one, so after RESTORE and RESUME evicted_ms is the time since the machine was started, and more.
 */
void sim_process_evict_locked(struct sim_process *p)
{
	struct sim_queue *q;
	struct sim_pdd *pdd;

	if (p->evicted++)
		return;
	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		if (pdd->vm || p->kernel->dates_eviction_without_vm)
			pdd->evicted_since = get_jiffies_64();
	atomic64_inc(&sim_count.evicted);
	list_for_each_entry(q, &p->queues, link)
		sim_queue_preempt(q, ktime_get_ns());
}

void sim_process_evict(struct sim_process *p)
{
	sim_run_lock(p);
	sim_process_evict_locked(p);
	mutex_unlock(&p->run_lock);
}

void sim_process_unevict(struct sim_process *p)
{
	struct sim_queue *q;
	struct sim_pdd *pdd;

	sim_run_lock(p);
	if (p->evicted && !--p->evicted) {
		for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
			if (pdd->vm)
				atomic64_add(get_jiffies_64() - pdd->evicted_since, &pdd->evicted_jiffies);
		atomic64_dec(&sim_count.evicted);
		/* A queue that faults evicts all of them again. */
		list_for_each_entry(q, &p->queues, link)
			if (!p->evicted)
				sim_wave_load(p, q);
	}
	mutex_unlock(&p->run_lock);
	sim_worker_kick(p);
}
