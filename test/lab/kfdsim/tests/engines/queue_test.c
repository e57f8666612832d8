// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * User queues that really run: micro-operations, eviction in the middle of a dispatch and
 * of a copy, doorbells by fault, the time model, rectangular copies.
 */
#include "engines/aql.h"
#include "child.h"

#define MIB (1024ull * 1024)
#define KIB 1024ull
#define QUEUE_VA 0x200000000ull
#define SDMA_VA 0x201000000ull
#define SPARE_VA 0x202000000ull
#define DATA_VA 0x210000000ull
#define HOST_VA 0x220000000ull
#define DATA_BYTES (16 * MIB)
#define MS 1000000ull

static struct gpu g;
static struct aql_queue q;
static struct sdma_queue sdma;
static volatile uint32_t *data;

static void evict(void)
{
	MUST(!criu_simple(g.kfd, KFD_CRIU_OP_PROCESS_INFO, 0));
}

static void unevict(void)
{
	MUST(!criu_simple(g.kfd, KFD_CRIU_OP_UNPAUSE, 0));
}

/* What GET_QUEUE_WAVE_STATE wrote: a header, and at the control stack's end what is used of it. */
static union {
	struct kfd_context_save_area_header header;
	char bytes[64 * 1024];
} state;

/* -errno, or bytes of control stack in use, at *wave. */
static int wave_state(uint32_t queue, const uint64_t **wave)
{
	struct kfd_ioctl_get_queue_wave_state_args a = { .queue_id = queue,
							 .ctl_stack_address = (uintptr_t)&state };
	int ret = try_ioctl(g.kfd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &a);

	if (ret)
		return ret;
	MUST(ctl_stack_size(&g) <= sizeof(state));
	IS(state.header.wave_state.control_stack_size, a.ctl_stack_used_size);
	IS(state.header.wave_state.control_stack_offset + a.ctl_stack_used_size, ctl_stack_size(&g));
	*wave = (uint64_t *)(state.bytes + state.header.wave_state.control_stack_offset);
	return a.ctl_stack_used_size;
}

static void test_operations(void)
{
	uint32_t n = DATA_BYTES / 4;
	long long before = counter("dispatches");
	uint64_t i;

	CHECK(completed(&q, dispatch(&q, KFDSIM_OP_FILL, DATA_VA, DATA_BYTES, 7, 0), 5000));
	CHECK(count_words(data, n, 7) == n);
	i = dispatch(&q, KFDSIM_OP_INCREMENT, DATA_VA + 4, 4100, 3, 0);
	CHECK(completed(&q, i, 5000) && *q.rptr == i + 1);
	CHECK(data[0] == 7 && count_words(data + 1, 1025, 10) == 1025 && data[1026] == 7);
	CHECK(completed(&q, dispatch(&q, KFDSIM_OP_FILL, DATA_VA, 0, 9, 0), 5000) &&
	      data[0] == 7);
	IS(counter("dispatches"), before + 3);
	/* What is no micro-operation completes at once, without effect. */
	CHECK(completed(&q, dispatch(&q, 0, DATA_VA, 4096, 9, 0), 5000) && data[0] == 7);
	IS(counter("dispatches"), before + 3);
}

static void test_spin(void)
{
	uint64_t ns = now_ns(), i = dispatch(&q, KFDSIM_OP_SPIN, 0, 100000, 0, 0);
	volatile struct signal *s = signal_of(&q, i);

	CHECK(completed(&q, i, 5000));
	ns = now_ns() - ns;
	CHECK(ns >= 100 * MS && ns < 400 * MS);
	CHECK(s->end - s->start >= GPU_CLOCK_HZ / 10);
}

/* 64 pages, 5 ms each: 320 ms. Stopped somewhere, each word is incremented once all the same. */
static void test_evict_memory(void)
{
	uint32_t n = 64 * 1024, seen;
	const uint64_t *wave;
	uint64_t i;

	memset((void *)data, 0, n * 4);
	i = dispatch(&q, KFDSIM_OP_INCREMENT, DATA_VA, n * 4, 1, 5000);
	while (!data[n / 4])
		usleep(1000);
	evict();
	seen = count_words(data, n, 1);
	CHECK(seen && seen < n && seen % 1024 == 0);
	IS(wave_state(q.id, &wave), KFDSIM_CTL_STACK);
	/* Word 4 of the wave, in the save area, are the steps done, a page each. */
	if (!skip_on_real("what a wave says is the business of each simulated hardware")) {
		wave = (uint64_t *)(QUEUE_VA + AQL_SAVE + ctl_stack_size(&g));
		CHECK(wave[1] == DATA_VA && wave[2] == n * 4 && wave[4] == seen / 1024);
	}
	IS(wave_state(sdma.id, &wave), -EINVAL);
	IS(wave_state(999, &wave), -EFAULT);
	CHECK(!completed(&q, i, 150) && *q.rptr == i);
	IS(count_words(data, n, 1), seen);
	unevict();
	CHECK(completed(&q, i, 5000));
	IS(count_words(data, n, 1), n);
	CHECK(*q.rptr == i + 1);
	IS(wave_state(q.id, &wave), -EINVAL);
	evict();
	IS(wave_state(q.id, &wave), 0);
	unevict();
}

/* Time on the GPU counts, not time that passes. */
static void test_evict_spin(void)
{
	uint64_t begin = now_ns(), i = dispatch(&q, KFDSIM_OP_SPIN, 0, 300000, 0, 0), paused;

	CHECK(!completed(&q, i, 100));
	evict();
	paused = now_ns();
	CHECK(!completed(&q, i, 400));
	paused = now_ns() - paused;
	unevict();
	CHECK(completed(&q, i, 5000));
	begin = now_ns() - begin;
	CHECK(begin >= paused + 299 * MS && begin < paused + 600 * MS);
}

/* One packet of 8 MiB at 20 MB/s: 419 ms. */
static void test_evict_copy(void)
{
	uint32_t n = 8 * MIB / 4, seen;

	for (uint32_t i = 0; i < n; i++)
		data[i] = 5;
	memset((void *)(data + n), 0, n * 4);
	set_parameter("dma_mbps", "20");
	put_copy(&sdma, DATA_VA + 8 * MIB, DATA_VA, 8 * MIB);
	while (!data[n + n / 4])
		usleep(1000);
	evict();
	seen = count_words(data + n, n, 5);
	CHECK(seen && seen < n);
	CHECK(!drained(&sdma, 150));
	IS(count_words(data + n, n, 5), seen);
	unevict();
	CHECK(drained(&sdma, 5000));
	IS(count_words(data + n, n, 5), n);
	set_parameter("dma_mbps", "0");
}

/* Idle queues are not looked at; the first doorbell after that faults; a wait is no poll. */
static void test_doorbells(void)
{
	long long polls, faults;
	uint64_t i;

	usleep(50000);
	polls = counter("queue_polls");
	faults = counter("doorbell_faults");
	usleep(500000);
	IS(counter("queue_polls"), polls);
	IS(counter("doorbell_faults"), faults);
	i = dispatch(&q, KFDSIM_OP_FILL, DATA_VA, 4096, 1, 0);
	CHECK(completed(&q, i, 1000));
	CHECK(counter("doorbell_faults") > faults);
	usleep(50000);
	/* A packet that nobody rang for is not found by chance. */
	i = put_dispatch(&q, KFDSIM_OP_FILL, DATA_VA, 4096, 2, 0);
	CHECK(!completed(&q, i, 200));
	*q.doorbell = i;
	CHECK(completed(&q, i, 1000) && data[0] == 2);
	/* A long operation is waited for by the clock; a doorbell meanwhile is heard. */
	i = dispatch(&q, KFDSIM_OP_SPIN, 0, 400000, 0, 0);
	usleep(50000);
	polls = counter("queue_polls");
	usleep(200000);
	IS(counter("queue_polls"), polls);
	put_fence(&sdma, sdma.words_va, 77);
	CHECK(drained(&sdma, 100) && sdma.words[0] == 77);
	CHECK(completed(&q, i, 5000));
}

static uint64_t timed_copy(uint64_t dst, uint64_t src)
{
	uint64_t ns = now_ns();

	/* That the copy was read from the ring does not mean that it is over: the fence does. */
	put_copy(&sdma, dst, src, MIB);
	put_fence(&sdma, sdma.words_va, 1);
	CHECK(drained(&sdma, 5000));
	return now_ns() - ns;
}

static void test_time(void)
{
	uint64_t ns;

	make(&g, HOST_VA, MIB, GTT);
	set_parameter("dma_mbps", "10");
	set_parameter("vram_mbps", "100");
	ns = timed_copy(HOST_VA, DATA_VA);
	CHECK(ns >= 104 * MS);
	ns = timed_copy(DATA_VA + MIB, DATA_VA);
	CHECK(ns >= 10 * MS && ns < 100 * MS);
	set_parameter("dma_mbps", "0");
	set_parameter("vram_mbps", "0");
	if (skip_on_real("submit_us is for kfdsim alone"))
		return;
	set_parameter("submit_us", "60000");
	usleep(50000);
	ns = timed_copy(DATA_VA + MIB, DATA_VA);
	CHECK(ns >= 60 * MS && ns < 400 * MS);
	ns = now_ns();
	CHECK(completed(&q, dispatch(&q, KFDSIM_OP_FILL, DATA_VA, 4096, 1, 0), 5000));
	CHECK(now_ns() - ns >= 60 * MS);
	set_parameter("submit_us", "0");
}

/* 4 x 3 x 2 elements of 4 bytes, from a 16 x 8 image to one with another pitch. */
static void test_rectangle(void)
{
	uint32_t dw[13] = { 1 | 4 << 8 | 2u << 29 };
	uint32_t from = 2 + 1 * 16, to = 3 + 2 * 20, i, wrong = 0;
	uint64_t src = DATA_VA, dst = DATA_VA + MIB;

	for (i = 0; i < 4096; i++)
		data[i] = i;
	memset((void *)(data + MIB / 4), 0, 16384);
	dw[1] = src, dw[2] = src >> 32, dw[3] = 2 | 1 << 16, dw[4] = 15 << 13, dw[5] = 127;
	dw[6] = dst, dw[7] = dst >> 32, dw[8] = 3 | 2 << 16, dw[9] = 19 << 13, dw[10] = 199;
	dw[11] = 3 | 2 << 16, dw[12] = 1;
	put_dwords(&sdma, dw, 13);
	CHECK(drained(&sdma, 2000));
	for (uint32_t z = 0; z < 2; z++)
		for (uint32_t y = 0; y < 3; y++)
			for (uint32_t x = 0; x < 4; x++)
				wrong += data[MIB / 4 + to + z * 200 + y * 20 + x] !=
					 from + z * 128 + y * 16 + x;
	IS(wrong, 0);
	/* And nothing beside it. */
	IS(count_words(data + MIB / 4, 4096, 0), 4096 - 24);
}

/* A process of its own for each: such a queue never runs again, and after a fault none of the process does. */
static void halts(uint32_t version, uint64_t address, uint64_t size, int faults)
{
	long long before = counter("gpu_faults");
	struct aql_queue bad, good;
	uint64_t i;

	g = open_gpu();
	MUST(!acquire(&g, g.render));
	make_aql(&g, SPARE_VA);
	make_aql(&g, QUEUE_VA);
	make(&g, DATA_VA, DATA_BYTES, VRAM);
	MUST(!create_aql(&g, &bad, SPARE_VA) && !create_aql(&g, &good, QUEUE_VA));
	CHECK(completed(&good, dispatch(&good, KFDSIM_OP_FILL, DATA_VA, 4096, 4, 0), 1000));
	((struct kfdsim_microop *)(bad.base + AQL_OBJECTS))[KFDSIM_OP_FILL].version = version;
	i = dispatch(&bad, KFDSIM_OP_FILL, address, size, 1, 0);
	/* All that is in front of the fault is done first. */
	for (int ms = 0; ms < 5000 && counter("gpu_faults") < before + faults; ms++)
		usleep(1000);
	CHECK(!completed(&bad, i, 50) && *bad.rptr == 0);
	if (!faults)
		return;
	IS(counter("gpu_faults"), before + 1);
	i = dispatch(&good, KFDSIM_OP_FILL, DATA_VA, 4096, 4, 0);
	CHECK(!completed(&good, i, 100));
	CHECK(counter("evicted") == 1);
}

static void bad_version(void)
{
	halts(2, DATA_VA, 4096, 0);
}

static void bad_address(void)
{
	halts(1, DATA_VA + 2, 4096, 0);
}

static void bad_size(void)
{
	halts(1, DATA_VA, 1ull << 60, 0);
}

static void behind_the_end(void)
{
	halts(1, DATA_VA + DATA_BYTES, 4096, 1);
}

static void beyond_the_end(void)
{
	halts(1, DATA_VA, DATA_BYTES + 4, 1);
}

static void test_bad(void)
{
	in_child("queue_test, version of an operation", bad_version);
	if (!skip_on_real("operations take any address and size there")) {
		in_child("queue_test, address of an operation", bad_address);
		in_child("queue_test, size of an operation", bad_size);
	}
	in_child("queue_test, memory behind the end", behind_the_end);
	in_child("queue_test, memory beyond the end", beyond_the_end);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	test_bad();
	g = open_gpu();
	MUST(!acquire(&g, g.render));
	make_aql(&g, QUEUE_VA);
	make_ring(&g, SDMA_VA);
	data = make(&g, DATA_VA, DATA_BYTES, VRAM).cpu;
	MUST(!create_aql(&g, &q, QUEUE_VA));
	MUST(!create_queue(&g, &sdma, SDMA_VA));
	test_operations();
	test_spin();
	test_evict_memory();
	test_evict_spin();
	test_evict_copy();
	test_doorbells();
	test_time();
	test_rectangle();
	return report("queue_test");
}
