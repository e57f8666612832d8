/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What a queue is made of. For kfd_test alone. */
#ifndef KFDSIM_TEST_QUEUE_BUFFERS_H
#define KFDSIM_TEST_QUEUE_BUFFERS_H

#include "kfd/kfd.h"

#define MIB (1024ull * 1024)
#define VA 0x200000000ull

/* A queue is made of whole mappings, which stay while it lives. ring: of one that lives. */
static void test_queue_buffers(const struct gpu *g, const struct memory *ring)
{
	uint64_t va = VA + 128 * MIB;
	struct kfd_ioctl_update_queue_args update = { .ring_base_address = va + RING_BYTES,
						      .ring_size = RING_BYTES,
						      .queue_percentage = 100 };
	struct kfd_ioctl_create_queue_args a = {
		.ring_base_address = va, .read_pointer_address = va + 2 * RING_BYTES,
		.write_pointer_address = va + 2 * RING_BYTES + 8, .ring_size = RING_BYTES,
		.gpu_id = g->id, .queue_type = KFD_IOC_QUEUE_TYPE_SDMA, .queue_percentage = 100,
	};
	struct kfd_ioctl_create_queue_args bad = a;

	make(g, va, RING_BYTES, GTT);
	make(g, va + 2 * RING_BYTES, PAGE_BYTES, GTT);
	make(g, va + 3 * RING_BYTES, 2 * PAGE_BYTES, GTT);
	bad.ring_size = RING_BYTES / 2;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_CREATE_QUEUE, &bad), -EINVAL);
	bad = a;
	bad.read_pointer_address = va + 3 * RING_BYTES;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_CREATE_QUEUE, &bad), -EINVAL);
	bad = a;
	bad.write_pointer_address = va + 8;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_CREATE_QUEUE, &bad), -EINVAL);
	/* A compute queue needs a save area, too. */
	bad = a;
	bad.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	bad.ctl_stack_size = gpu_property(g->id, "ctl_stack_size");
	bad.ctx_save_restore_size = gpu_property(g->id, "cwsr_size");
	CHECK(bad.ctl_stack_size && bad.ctx_save_restore_size > bad.ctl_stack_size);
	IS(try_ioctl(g->kfd, AMDKFD_IOC_CREATE_QUEUE, &bad), -EINVAL);
	IS(unmap_gpu(g, ring), -EBUSY);
	IS(try_ioctl(g->kfd, AMDKFD_IOC_UPDATE_QUEUE, &update), -EFAULT);
	update.ring_base_address = va;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_UPDATE_QUEUE, &update), 0);
	IS(unmap_gpu(g, ring), 0);
	IS(map_gpu(g, ring), 0);
	update.ring_base_address = ring->va;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_UPDATE_QUEUE, &update), 0);
}

#endif
