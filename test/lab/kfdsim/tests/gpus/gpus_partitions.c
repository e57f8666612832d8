// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * GPUs that are partitions of one device: they have one place on the bus, and doorbells of SDMA queues say which they
 * are. So a process does not come back on another partition, unless it has no such queue.
 */
#define _GNU_SOURCE
#include "child.h"
#include "criu/image.h"
#include "gpus/gpus.h"

#define VRAM_VA 0x200000000ull
#define RING_VA 0x230000000ull
#define DOORBELLS 10	/* of an engine: amdgpu_doorbell_mgr.c @ 6.12.117 */

static struct image *image;
static int with_queue;

static void original(void)
{
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	struct gpu a = use_gpu(kfd, 0), b = use_gpu(kfd, 1);
	uint32_t engines = property(nodes[0].index, "properties", "num_sdma_engines");
	struct sdma_queue first, second;

	make(&a, VRAM_VA, MIB, VRAM);
	if (with_queue) {
		make_ring(&a, RING_VA);
		MUST(!create_queue(&a, &first, RING_VA));
		make_ring(&b, RING_VA + MIB);
		MUST(!create_queue(&b, &second, RING_VA + MIB));
		IS((second.doorbell_offset - first.doorbell_offset) % DOORBELL_SLICE / 8, engines * DOORBELLS);
	}
	image_dump(image, kfd);
}

/* On the partitions in the order of to[]. */
static int restore_on(const unsigned int *to)
{
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	for (unsigned int i = 0; i < nr_nodes; i++) {
		image->devices[i].actual_gpu_id = nodes[to[i]].gpu_id;
		image->devices[i].drm_fd = open_render(nodes[to[i]].minor);
	}
	return image_restore(image, kfd);
}

static void in_place(void)
{
	static const unsigned int same[] = { 0, 1 };

	IS(restore_on(same), 0);
}

static void exchanged(void)
{
	static const unsigned int other[] = { 1, 0 };

	IS(restore_on(other), with_queue ? -EINVAL : 0);
}

int main(void)
{
	find_nodes();
	MUST(nr_nodes == 2);
	IS(property(nodes[0].index, "properties", "location_id") ^ property(nodes[1].index, "properties", "location_id"), 1);
	IS(property(nodes[0].index, "properties", "unique_id") == property(nodes[1].index, "properties", "unique_id"), 1);
	image = shared_memory(sizeof(*image));
	for (with_queue = 0; with_queue < 2; with_queue++) {
		in_child("gpus_partitions, dumped", original);
		in_child("gpus_partitions, in place", in_place);
		in_child("gpus_partitions, exchanged", exchanged);
	}
	return report("gpus_partitions");
}
