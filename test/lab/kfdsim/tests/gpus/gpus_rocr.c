// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Unmodified ROCr with several GPUs: each copies from and to host memory, and from each
 * other's VRAM exactly where the topology links them. argv[1]: "peers" or "apart".
 */
#include "rocr/rocr.h"

#define SIZE (1u << 20)
#define MAX_GPUS 8

static hsa_agent_t agents[MAX_GPUS];
static hsa_amd_memory_pool_t pools[MAX_GPUS];
static unsigned int nr;

static hsa_status_t on_gpu(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;

	(void)data;
	OK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
	if (type == HSA_DEVICE_TYPE_GPU) {
		MUST(nr < MAX_GPUS);
		agents[nr] = agent;
		OK(hsa_amd_agent_iterate_memory_pools(agent, on_pool, &pools[nr]));
		MUST(pools[nr++].handle);
	}
	return HSA_STATUS_SUCCESS;
}

static int reaches(unsigned int from, unsigned int pool)
{
	hsa_amd_memory_pool_access_t access;

	OK(hsa_amd_agent_memory_pool_get_info(agents[from], pools[pool],
					      HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
	return access != HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
}

int main(int argc, char **argv)
{
	int peers = argc > 1 && !strcmp(argv[1], "peers");
	uint32_t *in, *out;
	void *v[MAX_GPUS];
	unsigned int i, j;

	start_rocr();
	OK(hsa_iterate_agents(on_gpu, NULL));
	MUST(nr >= 2);
	OK(hsa_amd_memory_pool_allocate(host, SIZE, 0, (void **)&in));
	OK(hsa_amd_memory_pool_allocate(host, SIZE, 0, (void **)&out));
	OK(hsa_amd_agents_allow_access(nr, agents, NULL, in));
	OK(hsa_amd_agents_allow_access(nr, agents, NULL, out));
	for (i = 0; i < nr; i++) {
		OK(hsa_amd_memory_pool_allocate(pools[i], SIZE, 0, &v[i]));
		/* ROCr pushes with the engine of the source: it needs the destination as well. */
		if (peers)
			OK(hsa_amd_agents_allow_access(nr, agents, NULL, v[i]));
		fill_words(in, SIZE, i);
		copy(v[i], agents[i], in, cpu, SIZE);
	}
	for (i = 0; i < nr; i++) {
		fill_words(in, SIZE, i);
		copy(out, cpu, v[i], agents[i], SIZE);
		CHECK(!memcmp(in, out, SIZE));
		j = (i + 1) % nr;
		CHECK(reaches(j, i) == peers);
		if (!peers)
			continue;
		/* What i has goes to j, and comes back through j. */
		copy(v[j], agents[j], v[i], agents[i], SIZE);
		copy(out, cpu, v[j], agents[j], SIZE);
		CHECK(!memcmp(in, out, SIZE));
		fill_words(in, SIZE, j);
		copy(v[j], agents[j], in, cpu, SIZE);
	}
	for (i = 0; i < nr; i++)
		OK(hsa_amd_memory_pool_free(v[i]));
	OK(hsa_amd_memory_pool_free(in));
	OK(hsa_amd_memory_pool_free(out));
	OK(hsa_shut_down());
	return report("gpus_rocr");
}
