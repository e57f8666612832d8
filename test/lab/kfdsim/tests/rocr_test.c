// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Unmodified ROCr on the simulated GPU: SDMA copies both ways and a barrier-AND packet. */
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "check.h"

#define SIZE (3u << 20)
#define OK(call) MUST((call) == HSA_STATUS_SUCCESS)

static hsa_agent_t gpu, cpu;
static hsa_amd_memory_pool_t vram, host;

static hsa_status_t on_agent(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;

	(void)data;
	OK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
	if (type == HSA_DEVICE_TYPE_GPU)
		gpu = agent;
	else if (type == HSA_DEVICE_TYPE_CPU)
		cpu = agent;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *data)
{
	hsa_amd_segment_t segment;
	bool can;

	OK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
	OK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED,
					&can));
	if (segment == HSA_AMD_SEGMENT_GLOBAL && can && !((hsa_amd_memory_pool_t *)data)->handle)
		*(hsa_amd_memory_pool_t *)data = pool;
	return HSA_STATUS_SUCCESS;
}

static void copy(void *dst, hsa_agent_t dst_agent, void *src, hsa_agent_t src_agent)
{
	hsa_signal_t done;

	OK(hsa_signal_create(1, 0, NULL, &done));
	OK(hsa_amd_memory_async_copy(dst, dst_agent, src, src_agent, SIZE, 0, NULL, done));
	CHECK(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX,
					HSA_WAIT_STATE_BLOCKED) == 0);
	OK(hsa_signal_destroy(done));
}

static void barrier(void)
{
	uint16_t header = HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE |
			  1 << HSA_PACKET_HEADER_BARRIER;
	hsa_barrier_and_packet_t *packet;
	hsa_signal_t dependency, done;
	hsa_queue_t *queue;
	uint64_t index;

	OK(hsa_signal_create(1, 0, NULL, &dependency));
	OK(hsa_signal_create(1, 0, NULL, &done));
	OK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, 0, 0, &queue));
	index = hsa_queue_add_write_index_relaxed(queue, 1);
	packet = (hsa_barrier_and_packet_t *)queue->base_address + index % queue->size;
	memset((char *)packet + 2, 0, sizeof(*packet) - 2);
	packet->dep_signal[0] = dependency;
	packet->completion_signal = done;
	__atomic_store_n(&packet->header, header, __ATOMIC_RELEASE);
	hsa_signal_store_screlease(queue->doorbell_signal, index);
	CHECK(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, 100000000,
					HSA_WAIT_STATE_BLOCKED) == 1);
	hsa_signal_store_screlease(dependency, 0);
	CHECK(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX,
					HSA_WAIT_STATE_BLOCKED) == 0);
	CHECK(hsa_queue_load_read_index_relaxed(queue) == 1);
	OK(hsa_queue_destroy(queue));
	OK(hsa_signal_destroy(dependency));
	OK(hsa_signal_destroy(done));
}

int main(void)
{
	uint32_t *a, *b, i;
	void *v;

	OK(hsa_init());
	OK(hsa_iterate_agents(on_agent, NULL));
	MUST(gpu.handle && cpu.handle);
	OK(hsa_amd_agent_iterate_memory_pools(gpu, on_pool, &vram));
	OK(hsa_amd_agent_iterate_memory_pools(cpu, on_pool, &host));
	MUST(vram.handle && host.handle);
	OK(hsa_amd_memory_pool_allocate(host, SIZE, 0, (void **)&a));
	OK(hsa_amd_memory_pool_allocate(host, SIZE, 0, (void **)&b));
	OK(hsa_amd_memory_pool_allocate(vram, SIZE, 0, &v));
	OK(hsa_amd_agents_allow_access(1, &gpu, NULL, a));
	OK(hsa_amd_agents_allow_access(1, &gpu, NULL, b));
	for (i = 0; i < SIZE / 4; i++)
		a[i] = i * 2654435761u;
	copy(v, gpu, a, cpu);
	copy(b, cpu, v, gpu);
	CHECK(!memcmp(a, b, SIZE));
	barrier();
	OK(hsa_amd_memory_pool_free(v));
	OK(hsa_amd_memory_pool_free(a));
	OK(hsa_amd_memory_pool_free(b));
	OK(hsa_shut_down());
	return report("rocr_test");
}
