// SPDX-License-Identifier: GPL-2.0 OR MIT
/* ROCr: queues that come and go, barriers across queues, signals and their handlers, pinned memory. */
#include "rocr/rocr.h"

#define SIZE (1u << 20)
#define ROUNDS 12

static int handled;

static hsa_queue_t *new_queue(uint32_t packets)
{
	hsa_queue_t *queue;

	OK(hsa_queue_create(gpu, packets, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &queue));
	return queue;
}

static void test_queues(void)
{
	hsa_signal_t none = {};

	for (int i = 0; i < ROUNDS; i++) {
		hsa_queue_t *queue = new_queue(64u << i % 4);
		hsa_signal_t done = new_signal(200);

		/* More packets than the smallest ring has: it wraps. */
		for (int n = 0; n < 200; n++) {
			while (hsa_queue_load_write_index_relaxed(queue) -
			       hsa_queue_load_read_index_scacquire(queue) >= queue->size)
				;
			put_barrier(queue, none, done);
		}
		CHECK(await_zero(done, 5000000000) == 0);
		OK(hsa_queue_destroy(queue));
		OK(hsa_signal_destroy(done));
	}
}

/* A chain through four queues, put in from its end. */
static void test_chain(void)
{
	hsa_queue_t *queues[4];
	hsa_signal_t links[5];

	for (int i = 0; i < 5; i++)
		links[i] = new_signal(1);
	for (int i = 3; i >= 0; i--) {
		queues[i] = new_queue(64);
		put_barrier(queues[i], links[i], links[i + 1]);
	}
	CHECK(await_zero(links[4], 100000000) == 1);
	hsa_signal_subtract_screlease(links[0], 1);
	CHECK(await_zero(links[4], 5000000000) == 0);
	for (int i = 0; i < 4; i++)
		OK(hsa_queue_destroy(queues[i]));
	for (int i = 0; i < 5; i++)
		OK(hsa_signal_destroy(links[i]));
}

static bool on_signal(hsa_signal_value_t value, void *data)
{
	(void)value;
	__atomic_add_fetch((int *)data, 1, __ATOMIC_RELEASE);
	return false;
}

static void test_signals(void)
{
	hsa_signal_t watched = new_signal(1), done = new_signal(1);
	hsa_queue_t *queue = new_queue(64);
	hsa_signal_t none = {};

	OK(hsa_amd_signal_async_handler(watched, HSA_SIGNAL_CONDITION_EQ, 0, on_signal, &handled));
	CHECK(await_zero(watched, 20000000) == 1);
	put_barrier(queue, none, watched);
	put_barrier(queue, watched, done);
	CHECK(await_zero(done, 5000000000) == 0);
	for (int i = 0; i < 200 && !__atomic_load_n(&handled, __ATOMIC_ACQUIRE); i++)
		usleep(10000);
	CHECK(handled == 1);
	OK(hsa_queue_destroy(queue));
	OK(hsa_signal_destroy(watched));
	OK(hsa_signal_destroy(done));
}

static void test_pinned(void)
{
	uint32_t *a = aligned_alloc(4096, SIZE), *b = aligned_alloc(4096, SIZE);
	void *gpu_a, *gpu_b, *v = pool_memory(vram, SIZE);

	MUST(a && b);
	fill_words(a, SIZE, 17);
	memset(b, 0, SIZE);
	OK(hsa_amd_memory_lock(a, SIZE, &gpu, 1, &gpu_a));
	OK(hsa_amd_memory_lock(b, SIZE, &gpu, 1, &gpu_b));
	copy(v, gpu, gpu_a, cpu, SIZE);
	copy(gpu_b, cpu, v, gpu, SIZE);
	CHECK(!memcmp(a, b, SIZE));
	OK(hsa_amd_memory_unlock(a));
	OK(hsa_amd_memory_unlock(b));
	OK(hsa_amd_memory_pool_free(v));
	free(a);
	free(b);
}

int main(void)
{
	start_rocr();
	test_queues();
	test_chain();
	test_signals();
	test_pinned();
	OK(hsa_shut_down());
	return report("rocr_queue_test");
}
