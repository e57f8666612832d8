// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What debugfs tells for tests of checkpoints: objects of each process, calls that nobody should make,
 * and the pace of micro-operations.
 */
#include "engines/aql.h"
#include "child.h"
#include "own_objects.h"

#define RING_VA 0x200000000ull
#define PAGE_VA 0x208000000ull
#define DATA_VA 0x209000000ull
#define DATA_BYTES (2ull << 20)
#define STEPS 32

static void has(const char *want)
{
	check_at(__FILE__, __LINE__, !!strstr(own_objects(), want), "no \"%s\" in:\n%s", want,
		 listing);
}

static void test_objects(void)
{
	struct gpu g = open_gpu();
	struct memory page, data;
	struct aql_queue q;
	char line[200];
	uint32_t id;

	MUST(!acquire(&g, g.render));
	has(" paused=0 evicted=0\n");
	make_aql(&g, RING_VA);
	page = make(&g, PAGE_VA, KFD_SIGNAL_EVENT_LIMIT * 8, GTT);
	data = make(&g, DATA_VA, DATA_BYTES, VRAM);
	snprintf(line, sizeof(line), "bo gpu=%u handle=%u va=%#llx size=%llu flags=%#x user=0x0 mapped=%u,\n",
		 g.id, (uint32_t)data.handle, DATA_VA, DATA_BYTES, VRAM | WRITABLE, g.id);
	has(line);
	MUST(!create_aql(&g, &q, RING_VA));
	has("queue id=0 ");
	has(" type=0 format=1 ring=0x200000000 ring_size=4096 ");
	has(" ctl_stack=4096 priority=0 percent=100 doorbell=0 sdma=0 halted=0 pos=0 progress=0\n");
	MUST(!create_event(&g, KFD_IOC_EVENT_SIGNAL, 1, page.handle, &id));
	has("event id=0x1 type=0 auto_reset=1 signaled=0 waiters=0\n");
	MUST(!set_event(&g, id));
	has("event id=0x1 type=0 auto_reset=1 signaled=1 waiters=0\n");
	MUST(!unmap_gpu(&g, &data));
	has(" mapped=\n");
	MUST(!criu_simple(g.kfd, KFD_CRIU_OP_PROCESS_INFO, 0));
	has(" paused=1 evicted=1\n");
}

static void test_dangerous(void)
{
	struct gpu g = open_gpu();
	long long paused = counter("paused_again"), resumed = counter("resume_unrestored");

	MUST(!acquire(&g, g.render));
	MUST(!criu_simple(g.kfd, KFD_CRIU_OP_PROCESS_INFO, 0));
	IS(criu_simple(g.kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
	MUST(!criu_simple(g.kfd, KFD_CRIU_OP_PROCESS_INFO, 0));
	CHECK(counter("paused_again") == paused);
	MUST(!criu_simple(g.kfd, KFD_CRIU_OP_PROCESS_INFO, 0));
	CHECK(counter("paused_again") == paused + 1);
	IS(criu_simple(g.kfd, KFD_CRIU_OP_RESUME, getpid()), -EINVAL);
	CHECK(counter("resume_unrestored") == resumed + 1);
}

static void test_pace(void)
{
	struct gpu g = open_gpu();
	struct aql_queue q;
	uint64_t at, ns = now_ns();

	MUST(!acquire(&g, g.render));
	make_aql(&g, RING_VA);
	make(&g, DATA_VA, STEPS * KFDSIM_STEP_BYTES, VRAM);
	MUST(!create_aql(&g, &q, RING_VA));
	/* 32 s, of which 320 ms are left; the step that has begun takes its time. */
	set_parameter("step_percent", "1");
	at = dispatch(&q, KFDSIM_OP_INCREMENT, DATA_VA, STEPS * KFDSIM_STEP_BYTES, 1,
		      KFDSIM_MAX_STEP_US);
	CHECK(completed(&q, at, 10000));
	ns = now_ns() - ns;
	CHECK(ns >= 310000000ull);
	IS(count_words((uint32_t *)DATA_VA, STEPS * 1024, 1), STEPS * 1024);
	set_parameter("step_percent", "100");
	dispatch(&q, KFDSIM_OP_INCREMENT, DATA_VA, STEPS * KFDSIM_STEP_BYTES, 1, 200000);
	usleep(300000);
	CHECK(((uint32_t *)DATA_VA)[3 * 1024] == 1);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	in_child("objects_test, objects", test_objects);
	in_child("objects_test, dangerous calls", test_dangerous);
	in_child("objects_test, pace", test_pace);
	return report("objects_test");
}
