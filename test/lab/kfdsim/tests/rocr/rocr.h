/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the ROCr tests share: the first GPU with its memory pools, a copy, a barrier packet. */
#ifndef KFDSIM_TEST_ROCR_H
#define KFDSIM_TEST_ROCR_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "check.h"

#define OK(call) MUST((call) == HSA_STATUS_SUCCESS)

static hsa_agent_t gpu, cpu;
static hsa_amd_memory_pool_t vram, host;

static inline hsa_status_t on_agent(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;

	(void)data;
	OK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
	if (type == HSA_DEVICE_TYPE_GPU && !gpu.handle)
		gpu = agent;
	else if (type == HSA_DEVICE_TYPE_CPU && !cpu.handle)
		cpu = agent;
	return HSA_STATUS_SUCCESS;
}

static inline hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *data)
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

static inline void start_rocr(void)
{
	OK(hsa_init());
	OK(hsa_iterate_agents(on_agent, NULL));
	MUST(gpu.handle && cpu.handle);
	OK(hsa_amd_agent_iterate_memory_pools(gpu, on_pool, &vram));
	OK(hsa_amd_agent_iterate_memory_pools(cpu, on_pool, &host));
	MUST(vram.handle && host.handle);
}

/* Memory of the pool; host memory is made accessible to the GPU. */
static inline void *pool_memory(hsa_amd_memory_pool_t pool, size_t size)
{
	void *p;

	OK(hsa_amd_memory_pool_allocate(pool, size, 0, &p));
	if (pool.handle == host.handle)
		OK(hsa_amd_agents_allow_access(1, &gpu, NULL, p));
	return p;
}

static inline hsa_signal_t new_signal(hsa_signal_value_t value)
{
	hsa_signal_t signal;

	OK(hsa_signal_create(value, 0, NULL, &signal));
	return signal;
}

/* Its value once it is below 1, or after ns. */
static inline hsa_signal_value_t await_zero(hsa_signal_t signal, uint64_t ns)
{
	return hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, ns,
					 HSA_WAIT_STATE_BLOCKED);
}

static inline void copy(void *dst, hsa_agent_t dst_agent, void *src, hsa_agent_t src_agent,
			size_t size)
{
	hsa_signal_t done;

	OK(hsa_signal_create(1, 0, NULL, &done));
	OK(hsa_amd_memory_async_copy(dst, dst_agent, src, src_agent, size, 0, NULL, done));
	CHECK(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX,
					HSA_WAIT_STATE_BLOCKED) == 0);
	OK(hsa_signal_destroy(done));
}

/* A barrier-AND packet: done is decremented when dependency (may be 0) is 0. */
static inline void put_barrier(hsa_queue_t *queue, hsa_signal_t dependency, hsa_signal_t done)
{
	uint16_t header = HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE |
			  1 << HSA_PACKET_HEADER_BARRIER;
	uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
	hsa_barrier_and_packet_t *packet = (hsa_barrier_and_packet_t *)queue->base_address +
					   index % queue->size;

	memset((char *)packet + 2, 0, sizeof(*packet) - 2);
	packet->dep_signal[0] = dependency;
	packet->completion_signal = done;
	__atomic_store_n(&packet->header, header, __ATOMIC_RELEASE);
	hsa_signal_store_screlease(queue->doorbell_signal, index);
}

static inline void fill_words(uint32_t *p, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes / 4; i++)
		p[i] = seed + i * 2654435761u;
}

#endif
