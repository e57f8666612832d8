/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A good image of the default GPU, and arguments for it. */
#ifndef KFDSIM_TEST_GOOD_IMAGE_H
#define KFDSIM_TEST_GOOD_IMAGE_H

#include "criu/blob.h"

#define MIB (1024ull * 1024)
#define VRAM_VA 0x200000000ull
#define QUEUE_VA 0x210000000ull
#define PAGE_VA 0x220000000ull
#define CTL_STACK 4096	/* of the default GPU */
#define BAD 4096	/* an address nothing is mapped at */

/* A good image: eight BOs, two queues, two events. */
static void good(struct blob *b)
{
	blob_begin(b, gpu_id());
	blob_bo(b, VRAM_VA, MIB, VRAM | WRITABLE, 0, 0);
	blob_bo(b, QUEUE_VA, RING_BYTES, GTT | WRITABLE, 1, 0);
	blob_bo(b, PAGE_VA, 32768, GTT | WRITABLE, 2, 0);
	blob_bo(b, 0x240000000, 8192, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | WRITABLE, 5, 0);
	blob_bo(b, QUEUE_VA + RING_BYTES, PAGE_BYTES, GTT | WRITABLE, 6, 0);
	blob_compute_bos(b, QUEUE_VA + QUEUE_BYTES, 7);
	blob_queue(b, 1, QUEUE_VA, 0, 256, sdma_mqd_bytes(), 0);
	blob_queue(b, 0, QUEUE_VA + QUEUE_BYTES, 1, 0, BLOB_MQD_COMPUTE, CTL_STACK);
	blob_event(b, KFD_IOC_EVENT_SIGNAL, 1, (uint64_t)gpu_id() << 32 | 2);
	blob_event(b, KFD_IOC_EVENT_MEMORY, 0x40000000, 0);
}

#define BO(n) (16 + (n) * kernel_now()->bo_bytes)
#define SDMA BO(8)
#define COMPUTE (SDMA + BLOB_QUEUE_BYTES + sdma_mqd_bytes())
#define EVENT (COMPUTE + BLOB_QUEUE_BYTES + BLOB_MQD_COMPUTE + CTL_STACK)

static struct blob blob;
static struct kfd_ioctl_criu_args args;
static struct gpu gpu;

#endif
