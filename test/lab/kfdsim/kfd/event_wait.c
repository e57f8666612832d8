// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * WAIT_EVENTS. A waiter is activated by an event that is set while it waits, even if the
 * event is reset before the waiter runs.
 */
#include <linux/jiffies.h>
#include <linux/uaccess.h>

#include "kfdsim.h"

#define SIM_MAX_WAIT_EVENTS (1u << 16)

struct sim_waiter {
	struct list_head link;		/* in event->waiters while event is set */
	struct sim_event *event;	/* NULL once destroyed */
	bool activated;
	bool queued;			/* sleeps for it: not if it was set already, and not after that */
};

/* These need event_lock. Would somebody be woken by the event? */
bool sim_event_awaited(struct sim_event *ev)
{
	struct sim_waiter *w;

	list_for_each_entry(w, &ev->waiters, link)
		if (w->queued)
			return true;
	return false;
}

void sim_event_wake(struct sim_process *p, struct sim_event *ev)
{
	struct sim_waiter *w;

	list_for_each_entry(w, &ev->waiters, link) {
		if (!w->queued)
			continue;
		w->queued = false;
		WRITE_ONCE(w->activated, true);
	}
	wake_up_all(&p->event_wq);
}

void sim_event_forget(struct sim_process *p, struct sim_event *ev)
{
	struct sim_waiter *w, *next;

	list_for_each_entry_safe(w, next, &ev->waiters, link) {
		list_del(&w->link);
		WRITE_ONCE(w->event, NULL);
	}
	wake_up_all(&p->event_wq);
}

/* COMPLETE, FAIL (an event was destroyed) or TIMEOUT for not yet. */
static u32 sim_wait_state(struct sim_waiter *w, u32 n, bool all)
{
	u32 i, active = 0;

	for (i = 0; i < n; i++) {
		if (!READ_ONCE(w[i].event))
			return KFD_IOC_WAIT_RESULT_FAIL;
		if (READ_ONCE(w[i].activated)) {
			if (!all)
				return KFD_IOC_WAIT_RESULT_COMPLETE;
			active++;
		}
	}
	return active == n ? KFD_IOC_WAIT_RESULT_COMPLETE : KFD_IOC_WAIT_RESULT_TIMEOUT;
}

static int sim_wait_add(struct sim_process *p, struct sim_waiter *w, struct kfd_event_data *ed,
			u32 n)
{
	struct sim_event *ev;
	u64 age;
	u32 i;

	for (i = 0; i < n; i++) {
		ev = idr_find(&p->events, ed[i].event_id);
		if (!ev)
			return -EINVAL;
		w[i].event = ev;
		w[i].activated = ev->signaled;
		if (ev->auto_reset)
			ev->signaled = false;
		age = ed[i].signal_event_data.last_event_age;
		if (ev->type == KFD_IOC_EVENT_SIGNAL && age && age != ev->age)
			w[i].activated = true;
		/* kfd_events.c:init_event_waiter @ 6.12.117. */
		w[i].queued = !w[i].activated;
		list_add_tail(&w[i].link, &ev->waiters);
	}
	return 0;
}

/*
 * undo: a wait that is to be restarted must find what it had consumed. So the event is set once more, and its age says
 * so (kfd_events.c:free_waiters @ 6.12.117).
 */
static void sim_wait_remove(struct sim_process *p, struct sim_waiter *w, u32 n, bool undo)
{
	u32 i;

	for (i = 0; i < n; i++) {
		if (!w[i].event)
			continue;
		list_del(&w[i].link);
		if (undo && w[i].activated && w[i].event->auto_reset)
			sim_event_set(p, w[i].event);
	}
}

static void sim_wait_report(struct sim_waiter *w, struct kfd_event_data *ed, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		struct sim_event *ev = w[i].event;

		if (!ev || !w[i].activated)
			continue;
		if (ev->type == KFD_IOC_EVENT_SIGNAL && ed[i].signal_event_data.last_event_age)
			ed[i].signal_event_data.last_event_age = ev->age;
		else if (ev->type == KFD_IOC_EVENT_MEMORY)
			ed[i].memory_exception_data = ev->memory;
		else if (ev->type == KFD_IOC_EVENT_HW_EXCEPTION)
			ed[i].hw_exception_data = ev->hw;
	}
}

static long sim_wait_sleep(struct sim_process *p, struct sim_waiter *w,
			   struct kfd_ioctl_wait_events_args *args)
{
	unsigned long end = jiffies;
	long left;

	if (!args->timeout)
		return sim_wait_state(w, args->num_events, args->wait_for_all) ==
		       KFD_IOC_WAIT_RESULT_TIMEOUT ? 0 : 1;
	if (args->timeout == U32_MAX) {
		left = MAX_SCHEDULE_TIMEOUT;
	} else {
		left = msecs_to_jiffies(min(args->timeout, (u32)INT_MAX)) + 1;
		end += left;
	}
	left = wait_event_interruptible_timeout(p->event_wq,
						sim_wait_state(w, args->num_events,
							       args->wait_for_all) !=
						KFD_IOC_WAIT_RESULT_TIMEOUT, left);
	/* The restarted call must not begin its timeout anew. */
	if (left < 0 && args->timeout != U32_MAX)
		args->timeout = time_after(end, jiffies) ? jiffies_to_msecs(end - jiffies) : 0;
	return left;
}

int sim_kfd_wait_events(struct sim_process *p, void *data)
{
	struct kfd_ioctl_wait_events_args *args = data;
	u32 n = args->num_events;
	struct kfd_event_data *ed;
	struct sim_waiter *w;
	long left = 0;
	int ret;

	/* None is complete at once. The real driver sets no limit but memory. */
	if (n > SIM_MAX_WAIT_EVENTS)
		return -ENOMEM;
	ed = vmemdup_array_user(u64_to_user_ptr(args->events_ptr), n, sizeof(*ed));
	if (IS_ERR(ed))
		return PTR_ERR(ed);
	w = kvcalloc(n, sizeof(*w), GFP_KERNEL);
	if (!w) {
		kvfree(ed);
		return -ENOMEM;
	}
	mutex_lock(&p->event_lock);
	ret = sim_wait_add(p, w, ed, n);
	mutex_unlock(&p->event_lock);
	if (!ret)
		left = sim_wait_sleep(p, w, args);
	mutex_lock(&p->event_lock);
	args->wait_result = sim_wait_state(w, n, args->wait_for_all);
	if (!ret && args->wait_result != KFD_IOC_WAIT_RESULT_TIMEOUT)
		left = max(left, 1L);
	if (!ret && left < 0)
		ret = left;
	sim_wait_report(w, ed, n);
	sim_wait_remove(p, w, n, ret == -ERESTARTSYS);
	mutex_unlock(&p->event_lock);
	if (ret)
		args->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
	else if (args->wait_result == KFD_IOC_WAIT_RESULT_FAIL)
		ret = -EIO;
	else if (copy_to_user(u64_to_user_ptr(args->events_ptr), ed, n * sizeof(*ed)))
		ret = -EFAULT;
	kvfree(w);
	kvfree(ed);
	return ret;
}
