// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Waits for several events: what is set while they last, and what a signal leaves that interrupts them. */
#include <pthread.h>
#include <signal.h>

#include "child.h"
#include "kfd/kfd.h"

#define PAGE_VA 0x200000000ull

static struct gpu g;
static uint32_t automatic, other;
static int result;

/* For both events, ms long: the result or -errno. */
static int wait_both(uint32_t ms)
{
	struct kfd_event_data data[2] = { { .event_id = automatic }, { .event_id = other } };
	struct kfd_ioctl_wait_events_args a = { .events_ptr = (uintptr_t)data, .num_events = 2, .wait_for_all = 1,
						.timeout = ms };
	int ret = try_ioctl(g.kfd, AMDKFD_IOC_WAIT_EVENTS, &a);

	return ret ? ret : (int)a.wait_result;
}

static void *waiter(void *unused)
{
	(void)unused;
	result = wait_both(20000);
	return NULL;
}

static pthread_t start_waiter(void)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, waiter, NULL));
	usleep(200000);
	return thread;
}

/* What the age of an event is: a wait for another one tells at once. */
static uint64_t age(uint32_t event)
{
	struct kfd_event_data data = { .event_id = event, .signal_event_data.last_event_age = ~0ull };
	struct kfd_ioctl_wait_events_args a = { .events_ptr = (uintptr_t)&data, .num_events = 1 };

	MUST(!try_ioctl(g.kfd, AMDKFD_IOC_WAIT_EVENTS, &a));
	return data.signal_event_data.last_event_age;
}

/* One that was set before the wait is set again in it: nobody was woken by that, so it stays set. */
static void set_again(void)
{
	pthread_t thread;

	MUST(!set_event(&g, automatic));
	thread = start_waiter();
	MUST(!set_event(&g, automatic));
	MUST(!set_event(&g, other));
	MUST(!pthread_join(thread, NULL));
	IS(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(&g, automatic, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(&g, automatic, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

/* One that was set in the wait: who waits has it. */
static void set_once(void)
{
	pthread_t thread = start_waiter();

	MUST(!set_event(&g, automatic));
	usleep(100000);
	MUST(!set_event(&g, other));
	MUST(!pthread_join(thread, NULL));
	IS(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(&g, automatic, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

static void nothing(int number)
{
	(void)number;
}

/* A signal ends the wait: the event is set as if once more, which its age tells. */
static void interrupted(void)
{
	struct sigaction action = { .sa_handler = nothing };
	pthread_t thread;
	uint64_t before;

	MUST(!sigaction(SIGUSR1, &action, NULL));
	MUST(!set_event(&g, automatic));
	before = age(other);
	thread = start_waiter();
	MUST(!pthread_kill(thread, SIGUSR1));
	MUST(!pthread_join(thread, NULL));
	IS(result, -EINTR);
	IS(age(other), before);
	/* Its own is asked for with a wait that takes the signal. */
	before = 2;
	IS(age(automatic), before + 1);
}

static void one(void (*run)(void))
{
	struct memory page;

	g = open_gpu();
	MUST(!acquire(&g, g.render));
	page = make(&g, PAGE_VA, KFD_SIGNAL_EVENT_LIMIT * 8, GTT);
	MUST(!create_event(&g, KFD_IOC_EVENT_SIGNAL, 1, page.handle, &automatic));
	MUST(!create_event(&g, KFD_IOC_EVENT_SIGNAL, 0, 0, &other));
	run();
}

static void child_again(void) { one(set_again); }
static void child_once(void) { one(set_once); }
static void child_interrupted(void) { one(interrupted); }

int main(void)
{
	in_child("event_test, set again", child_again);
	in_child("event_test, set once", child_once);
	in_child("event_test, interrupted", child_interrupted);
	return report("event_test");
}
