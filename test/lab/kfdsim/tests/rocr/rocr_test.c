// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Unmodified ROCr on the simulated GPU: SDMA copies both ways and a barrier-AND packet. */
#include "rocr/rocr.h"

#define SIZE (3u << 20)

static void barrier(void)
{
	hsa_signal_t dependency = new_signal(1), done = new_signal(1);
	hsa_queue_t *queue;

	OK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, 0, 0, &queue));
	put_barrier(queue, dependency, done);
	CHECK(await_zero(done, 100000000) == 1);
	hsa_signal_store_screlease(dependency, 0);
	CHECK(await_zero(done, UINT64_MAX) == 0);
	CHECK(hsa_queue_load_read_index_relaxed(queue) == 1);
	OK(hsa_queue_destroy(queue));
	OK(hsa_signal_destroy(dependency));
	OK(hsa_signal_destroy(done));
}

int main(void)
{
	uint32_t *a, *b;
	void *v;

	start_rocr();
	a = pool_memory(host, SIZE);
	b = pool_memory(host, SIZE);
	v = pool_memory(vram, SIZE);
	fill_words(a, SIZE, 0);
	copy(v, gpu, a, cpu, SIZE);
	copy(b, cpu, v, gpu, SIZE);
	CHECK(!memcmp(a, b, SIZE));
	barrier();
	OK(hsa_amd_memory_pool_free(v));
	OK(hsa_amd_memory_pool_free(a));
	OK(hsa_amd_memory_pool_free(b));
	OK(hsa_shut_down());
	return report("rocr_test");
}
