// SPDX-License-Identifier: GPL-2.0 OR MIT
/* KFD events: identity, state, the signal page. Waiting is in event_wait.c. */
#include "kfdsim.h"

#define SIM_OTHER_EVENT_FIRST	0x40000000	/* ids of events without a slot */
#define SIM_SLOT_UNSIGNALED	U64_MAX

static bool sim_has_slot(u32 type)
{
	return type == KFD_IOC_EVENT_SIGNAL || type == KFD_IOC_EVENT_DEBUG_EVENT;
}

/* Needs event_lock. */
void sim_event_set(struct sim_process *p, struct sim_event *ev)
{
	/* An auto-reset event stays set only if nobody waits for it: kfd_events.c:set_event @ 6.12.117. */
	ev->signaled = !ev->auto_reset || !sim_event_awaited(ev);
	/* 0 means "no age" to user space, 1 is what a new event has: wrap to 2. */
	if (!++ev->age)
		ev->age = 2;
	sim_event_wake(p, ev);
}

/* Needs p->lock. Take a GTT or VRAM BO of the process as the signal page. */
int sim_event_set_page(struct sim_process *p, u64 handle)
{
	struct sim_mem *mem = sim_mem_lookup(p, handle);
	u64 *slots;

	if (!mem || mem->size < SIM_EVENT_PAGE_SIZE)
		return -EINVAL;
	slots = sim_bo_vmap(mem->bo);
	if (!slots)
		return -EINVAL;
	mutex_lock(&p->event_lock);
	if (p->slots) {
		mutex_unlock(&p->event_lock);
		return -EINVAL;
	}
	memset(slots, 0xff, SIM_EVENT_PAGE_SIZE);
	sim_bo_get(mem->bo);
	p->event_bo = mem->bo;
	p->event_handle = handle;
	p->slots = slots;
	mutex_unlock(&p->event_lock);
	return 0;
}

/*
 * Without a page of the process the kernel owns one and maps it through /dev/kfd (kfd_events.c:allocate_signal_page @
 * 6.12.117), in 7.3 no more. Needs event_lock.
 */
static int sim_event_own_page(struct sim_process *p)
{
	if (!p->kernel->own_event_page)
		return -ENOMEM;
	p->own_event_page = __get_free_pages(GFP_KERNEL | __GFP_ZERO,
					     get_order(SIM_EVENT_PAGE_SIZE));
	if (!p->own_event_page)
		return -ENOMEM;
	p->slots = (u64 *)p->own_event_page;
	memset(p->slots, 0xff, SIM_EVENT_PAGE_SIZE);
	return 0;
}

/* Add an event, want_id < 0 for any id; frees nothing on failure. Needs p->lock. */
int sim_event_insert(struct sim_process *p, struct sim_event *ev, int want_id)
{
	int id = 0;

	INIT_LIST_HEAD(&ev->waiters);
	mutex_lock(&p->event_lock);
	if (sim_has_slot(ev->type) && !p->slots)
		id = sim_event_own_page(p);
	if (!id) {
		if (want_id >= 0)
			id = idr_alloc(&p->events, ev, want_id, want_id + 1, GFP_KERNEL);
		else if (sim_has_slot(ev->type))
			id = idr_alloc(&p->events, ev, 1, KFD_SIGNAL_EVENT_LIMIT, GFP_KERNEL);
		else
			id = idr_alloc(&p->events, ev, SIM_OTHER_EVENT_FIRST, 0, GFP_KERNEL);
	}
	if (id >= 0) {
		ev->id = id;
		if (sim_has_slot(ev->type) && id < KFD_SIGNAL_EVENT_LIMIT)
			WRITE_ONCE(p->slots[id], SIM_SLOT_UNSIGNALED);
		atomic64_inc(&sim_count.events);
	}
	mutex_unlock(&p->event_lock);
	return id < 0 ? id : 0;
}

int sim_kfd_create_event(struct sim_process *p, void *data)
{
	struct kfd_ioctl_create_event_args *args = data;
	struct sim_event *ev;
	int ret = 0;

	ev = kzalloc(sizeof(*ev), GFP_KERNEL);
	if (!ev)
		return -ENOMEM;
	ev->type = args->event_type;
	ev->auto_reset = args->auto_reset;
	ev->age = 1;
	mutex_lock(&p->lock);
	if (p->dead)
		ret = -ESRCH;
	else if (args->event_page_offset)
		ret = sim_event_set_page(p, args->event_page_offset);
	if (!ret)
		ret = sim_event_insert(p, ev, -1);
	mutex_unlock(&p->lock);
	if (ret) {
		kfree(ev);
		return ret;
	}
	args->event_id = ev->id;
	args->event_trigger_data = ev->id;
	args->event_slot_index = sim_has_slot(ev->type) ? ev->id : 0;
	args->event_page_offset = sim_has_slot(ev->type) ? SIM_MMAP_TYPE_EVENTS : 0;
	return 0;
}

int sim_kfd_destroy_event(struct sim_process *p, void *data)
{
	struct kfd_ioctl_destroy_event_args *args = data;
	struct sim_event *ev;

	mutex_lock(&p->event_lock);
	ev = idr_remove(&p->events, args->event_id);
	if (ev)
		sim_event_forget(p, ev);
	mutex_unlock(&p->event_lock);
	if (!ev)
		return -EINVAL;
	kfree(ev);
	atomic64_dec(&sim_count.events);
	return 0;
}

/* Only signal events can be set and reset from the CPU. */
static struct sim_event *sim_event_cpu(struct sim_process *p, u32 id)
{
	struct sim_event *ev = idr_find(&p->events, id);

	return ev && ev->type == KFD_IOC_EVENT_SIGNAL ? ev : NULL;
}

int sim_kfd_set_event(struct sim_process *p, void *data)
{
	struct kfd_ioctl_set_event_args *args = data;
	struct sim_event *ev;

	mutex_lock(&p->event_lock);
	ev = sim_event_cpu(p, args->event_id);
	if (ev)
		sim_event_set(p, ev);
	mutex_unlock(&p->event_lock);
	return ev ? 0 : -EINVAL;
}

int sim_kfd_reset_event(struct sim_process *p, void *data)
{
	struct kfd_ioctl_reset_event_args *args = data;
	struct sim_event *ev;

	mutex_lock(&p->event_lock);
	ev = sim_event_cpu(p, args->event_id);
	if (ev)
		ev->signaled = false;
	mutex_unlock(&p->event_lock);
	return ev ? 0 : -EINVAL;
}

/* An interrupt of an engine: the mailbox slot was written just before. */
void sim_event_interrupt(struct sim_process *p, u32 id)
{
	struct sim_event *ev;

	mutex_lock(&p->event_lock);
	ev = idr_find(&p->events, id);
	if (ev && id < KFD_SIGNAL_EVENT_LIMIT && p->slots &&
	    READ_ONCE(p->slots[id]) != SIM_SLOT_UNSIGNALED) {
		WRITE_ONCE(p->slots[id], SIM_SLOT_UNSIGNALED);
		sim_event_set(p, ev);
	}
	mutex_unlock(&p->event_lock);
}

void sim_event_memory_fault(struct sim_pdd *pdd, u64 va, bool write)
{
	struct sim_process *p = pdd->p;
	struct sim_event *ev;
	int id;

	mutex_lock(&p->event_lock);
	idr_for_each_entry(&p->events, ev, id) {
		if (ev->type != KFD_IOC_EVENT_MEMORY)
			continue;
		memset(&ev->memory, 0, sizeof(ev->memory));
		ev->memory.va = va;
		ev->memory.gpu_id = pdd->user_gpu_id;
		ev->memory.failure.NotPresent = 1;
		ev->memory.failure.ReadOnly = write;
		sim_event_set(p, ev);
	}
	mutex_unlock(&p->event_lock);
}

/*
 * At the end the kernel takes the id in the handle of the event page for a GPU's own, though it is the process's. After
 * a restore under another id the page is not found, and stays pinned while it is freed; or another one is found, and
 * unpinned in its place (kfd_process.c:kfd_process_kunmap_signal_bo @ 6.12.117, 7.3.4). Before the memory goes.
 */
static void sim_event_page_end(struct sim_process *p)
{
	struct sim_gpu *gpu = sim_gpu_by_id(p->event_handle >> 32);
	struct sim_pdd *pdd = gpu ? sim_pdd_by_gpu(p, gpu) : NULL;
	struct sim_mem *mem = pdd ? idr_find(&pdd->mems, (u32)p->event_handle) : NULL;

	if (p->event_bo && mem && mem->bo != p->event_bo) {
		pr_warn_ratelimited("process %d: a real kernel unpins another BO than the event page\n",
				    task_pid_nr(p->lead));
		atomic64_inc(&sim_count.event_page_mixups);
	}
}

void sim_events_free(struct sim_process *p)
{
	struct sim_event *ev;
	int id;

	sim_event_page_end(p);
	idr_for_each_entry(&p->events, ev, id) {
		kfree(ev);
		atomic64_dec(&sim_count.events);
	}
	idr_destroy(&p->events);
	if (p->event_bo)
		sim_bo_put(p->event_bo);
}
