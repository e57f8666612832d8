/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The topology as the tests of several GPUs see it. */
#ifndef KFDSIM_TEST_GPUS_H
#define KFDSIM_TEST_GPUS_H

#include "kfd/kfd.h"

#define MIB (1024ull * 1024)
#define MAX_GPUS 8
#define NODES "/sys/class/kfd/kfd/topology/nodes"

struct node {
	unsigned int index;		/* in the topology */
	uint32_t gpu_id;
	unsigned int minor;		/* of the render node */
	uint64_t hive, vram;
};

static struct node nodes[MAX_GPUS];
static unsigned int nr_nodes;		/* GPUs */

/* One line "key value" of a file of the topology; -errno if it cannot be read. */
static inline long long property(unsigned int node, const char *file, const char *key)
{
	char path[160], name[64];
	unsigned long long value;
	long long found = -ENOENT;
	FILE *f;

	snprintf(path, sizeof(path), NODES "/%u/%s", node, file);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	errno = 0;
	while (fscanf(f, "%63s %llu", name, &value) == 2)
		if (!strcmp(name, key))
			found = value;
	if (errno)
		found = -errno;
	fclose(f);
	return found;
}

/* gpu_id of a node, 0 for a CPU, -errno: -EPERM for a hidden GPU, -ENOENT after the last. */
static inline long node_gpu_id(unsigned int node)
{
	char path[80];
	long id;
	FILE *f;

	snprintf(path, sizeof(path), NODES "/%u/gpu_id", node);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	errno = 0;
	if (fscanf(f, "%ld", &id) != 1)
		id = errno ? -errno : -EINVAL;
	fclose(f);
	return id;
}

static inline void find_nodes(void)
{
	unsigned int i;
	long id;

	for (i = 0; (id = node_gpu_id(i)) >= 0; i++) {
		struct node *n = &nodes[nr_nodes];

		if (!id)
			continue;
		MUST(nr_nodes < MAX_GPUS);
		n->index = i;
		n->gpu_id = id;
		n->minor = property(i, "properties", "drm_render_minor");
		n->hive = property(i, "properties", "hive_id");
		n->vram = property(i, "mem_banks/0/properties", "size_in_bytes");
		nr_nodes++;
	}
	MUST(id == -ENOENT);
}

static inline int open_render(unsigned int minor)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", minor);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* GPU i of the topology on an open /dev/kfd, with a VM. */
static inline struct gpu use_gpu(int kfd, unsigned int i)
{
	struct gpu g = { .kfd = kfd, .render = open_render(nodes[i].minor),
			 .id = nodes[i].gpu_id };

	MUST(g.render >= 0);
	IS(acquire(&g, g.render), 0);
	return g;
}

static inline int parameter_is(const char *name, char value)
{
	char path[80];
	FILE *f;
	int c;

	snprintf(path, sizeof(path), "/sys/module/amdgpu/parameters/%s", name);
	f = fopen(path, "r");
	MUST(f);
	c = fgetc(f);
	fclose(f);
	return c == value;
}

/* Can b's engines use VRAM of a? */
static inline int peers(unsigned int a, unsigned int b)
{
	return parameter_is("p2p", 'Y') || (nodes[a].hive && nodes[a].hive == nodes[b].hive);
}

#endif
