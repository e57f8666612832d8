/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A blob with one of everything, of the sizes that kernel and GPU have. For criu_blob_test and criu_sizes_test. */
#ifndef KFDSIM_TEST_BLOB_SAMPLE_H
#define KFDSIM_TEST_BLOB_SAMPLE_H

#include "criu/blob.h"

#define MIB (1024ull * 1024)
#define VRAM_VA 0x200000000ull
#define QUEUE_VA 0x210000000ull
#define COMPUTE_VA 0x211000000ull
#define PAGE_VA 0x220000000ull
#define USER_VA 0x230000000ull
#define DOORBELL_VA 0x240000000ull
#define MMIO_VA 0x250000000ull
#define EOP_VA 0x260000000ull
#define DOORBELL KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL
#define MMIO KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP
#define UNTOUCHED 0x1122334455667788ull

static struct blob blob;
static const struct kernel *kernel;

static inline uint32_t property(const char *name)
{
	FILE *f = fopen("/sys/class/kfd/kfd/topology/nodes/1/properties", "r");
	unsigned long long value, found = 0;
	char key[64];

	MUST(f);
	while (fscanf(f, "%63s %llu", key, &value) == 2)
		if (!strcmp(key, name))
			found = value;
	fclose(f);
	return found;
}

static inline uint32_t gfx(void)
{
	return property("gfx_target_version") / 10000;
}

/* XCCs whose part of a compute queue is in a blob. */
static inline uint32_t saved_xccs(void)
{
	return kernel->saves_xccs ? property("num_xcc") : 1;
}

/* Bytes of control stack a blob has of a compute queue with a save area, for each XCC. */
static inline uint32_t saved_ctl_stack(void)
{
	return gfx() == 9 && !kernel->loses_stack ? property("ctl_stack_size") : 0;
}

static inline void fill(struct blob *b, uint32_t user_id)
{
	uint8_t *at;

	blob_begin(b, user_id);
	blob_bo(b, VRAM_VA, MIB, VRAM | WRITABLE, 0, 0);
	blob_bo(b, QUEUE_VA, RING_BYTES, GTT | WRITABLE, 1, 0);
	blob_bo(b, PAGE_VA, 32768, GTT | WRITABLE, 3, 0);
	blob_bo(b, USER_VA, MIB, USERPTR | WRITABLE, 70, USER_VA);
	blob_bo(b, DOORBELL_VA, 8192, DOORBELL | WRITABLE, 71, 0);
	blob_bo(b, MMIO_VA, 4096, MMIO | WRITABLE, 72, 0);
	blob_bo(b, QUEUE_VA + RING_BYTES, PAGE_BYTES, GTT | WRITABLE, 73, 0);
	blob_compute_bos(b, COMPUTE_VA, 74);
	blob_bo(b, EOP_VA, PAGE_BYTES, GTT | WRITABLE, 77, 0);
	blob_queue(b, 1, QUEUE_VA, 3, 256, sdma_mqd_bytes(), 0);
	at = blob_compute(b, COMPUTE_VA, 0, 9, saved_xccs(), saved_ctl_stack());
	put64(at + 48, EOP_VA);
	put32(at + 100, PAGE_BYTES);
	put32(at + 80, 7);
	blob_event(b, KFD_IOC_EVENT_SIGNAL, 1, (uint64_t)user_id << 32 | 3);
	at = blob_event(b, KFD_IOC_EVENT_SIGNAL, 40, 0);
	put32(at + 20, 1);
	put32(at + 28, 1);
	blob_event(b, KFD_IOC_EVENT_DEBUG_EVENT, 41, 0);
	at = blob_event(b, KFD_IOC_EVENT_HW_EXCEPTION, 0x40000000, 0);
	put32(at + 32, 5);
	at = blob_event(b, KFD_IOC_EVENT_MEMORY, 0x40000007, 0);
	put64(at + 48, 0x123456000);
}

/* Of two queues, a compute queue and then one of SDMA, the second comes first. */
static inline void exchange_queues(struct blob *b)
{
	const size_t sdma = BLOB_QUEUE_BYTES + sdma_mqd_bytes();
	const size_t compute = BLOB_QUEUE_BYTES + saved_xccs() * (BLOB_MQD_COMPUTE + saved_ctl_stack());
	uint8_t *first = b->data + 16 + blob.nr_bos * kernel->bo_bytes, *copy = malloc(sdma + compute);

	MUST(copy);
	memcpy(copy, first + compute, sdma);
	memcpy(copy + sdma, first, compute);
	memcpy(first, copy, sdma + compute);
	free(copy);
}

#endif
