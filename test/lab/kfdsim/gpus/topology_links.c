// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Links between the nodes of the topology. io_links are the direct ones; p2p_links go through
 * a CPU, and between GPUs exist only where the kernel has PCIe peer to peer.
 */
#include "gpus/topology.h"

/* HSA_IOLINKTYPE_* of the thunk. */
#define LINK_HYPERTRANSPORT	1
#define LINK_PCIE		2
#define LINK_XGMI		11

/* PCIe: kfd_crat.c:kfd_parse_subtype_iolink @ 6.12.117; one hop of XGMI: KFD_CRAT_XGMI_WEIGHT; CPUs: as usual. */
#define WEIGHT_PCIE		20
#define WEIGHT_XGMI		15
#define WEIGHT_CPUS		32

struct sim_link {
	u32 type, weight;
	u32 min_bandwidth, max_bandwidth;	/* MB/s */
};

/* CPU nodes come first: as many as it takes for the last NUMA node of a GPU. */
unsigned int sim_topology_cpus(void)
{
	unsigned int i, nr = 1;

	for (i = 0; i < sim.nr_gpus; i++)
		nr = max(nr, sim.gpus[i].numa_node + 1);
	return nr;
}

static struct sim_gpu *sim_link_gpu(unsigned int node)
{
	unsigned int cpus = sim_topology_cpus();

	return node < cpus ? NULL : &sim.gpus[node - cpus];
}

static struct sim_link sim_link_pcie(u32 weight)
{
	return (struct sim_link){ LINK_PCIE, weight, 312, 32000 };
}

/* Between a GPU and a CPU node; there is one always, direct or through another CPU. */
static bool sim_link_host(struct sim_gpu *gpu, unsigned int cpu, bool p2p, struct sim_link *link)
{
	bool near = gpu->numa_node == cpu;

	*link = sim_link_pcie(near ? WEIGHT_PCIE : WEIGHT_PCIE + WEIGHT_CPUS);
	return near != p2p;
}

static bool sim_link_peers(struct sim_gpu *a, struct sim_gpu *b, bool p2p, struct sim_link *link)
{
	if (a->hive && a->hive == b->hive) {
		*link = (struct sim_link){ LINK_XGMI, WEIGHT_XGMI, 50000, 50000 };
		return !p2p;
	}
	*link = sim_link_pcie(2 * WEIGHT_PCIE + (a->numa_node != b->numa_node ? WEIGHT_CPUS : 0));
	return p2p && sim.p2p;
}

/* Is there a link of this kind? It is the same in both directions. */
static bool sim_link_find(unsigned int from, unsigned int to, bool p2p, struct sim_link *link)
{
	struct sim_gpu *a = sim_link_gpu(from), *b = sim_link_gpu(to);

	if (from == to)
		return false;
	if (a && b)
		return sim_link_peers(a, b, p2p, link);
	if (a || b)
		return sim_link_host(a ?: b, a ? to : from, p2p, link);
	*link = (struct sim_link){ .type = LINK_HYPERTRANSPORT, .weight = WEIGHT_CPUS };
	return !p2p;
}

/* Fill io_links or p2p_links of a node; returns how many there are. gpu: the node's, or NULL. */
unsigned int sim_topology_links(struct kobject *node, struct sim_gpu *gpu, unsigned int from,
				bool p2p)
{
	struct kobject *dir = sim_topology_dir(node, p2p ? "p2p_links" : "io_links");
	unsigned int to, nr = 0, nodes = sim_topology_cpus() + sim.nr_gpus;
	struct sim_link link;
	char name[12];

	for (to = 0; to < nodes; to++) {
		if (!sim_link_find(from, to, p2p, &link))
			continue;
		snprintf(name, sizeof(name), "%u", nr++);
		sim_topology_file(sim_topology_dir(dir, name), gpu, "properties",
				  "type %u\nversion_major 0\nversion_minor 0\nnode_from %u\n"
				  "node_to %u\nweight %u\nmin_latency 0\nmax_latency 0\n"
				  "min_bandwidth %u\nmax_bandwidth %u\n"
				  "recommended_transfer_size 0\n"
				  "recommended_sdma_engine_id_mask 0\nflags 1\n",
				  link.type, from, to, link.weight, link.min_bandwidth,
				  link.max_bandwidth);
	}
	return nr;
}
