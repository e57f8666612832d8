/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Bare KFD calls for the tests: no ROCm user space in between. All return 0 or -errno. */
#ifndef KFDSIM_TEST_KFD_H
#define KFDSIM_TEST_KFD_H

#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#define VRAM KFD_IOC_ALLOC_MEM_FLAGS_VRAM
#define GTT KFD_IOC_ALLOC_MEM_FLAGS_GTT
#define USERPTR KFD_IOC_ALLOC_MEM_FLAGS_USERPTR
#define WRITABLE KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE
#define RENDER_NODE "/dev/dri/renderD128"

struct gpu {
	int kfd, render;
	uint32_t id;
};

struct memory {
	uint64_t handle, va, size, offset;
	void *cpu;
};

/* gpu_id of a topology node, 0 for a CPU or if there is none. Node 1 is the first GPU. */
static inline uint32_t topology_gpu_id(int node)
{
	char path[80];
	uint32_t id = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%d/gpu_id", node);
	f = fopen(path, "r");
	if (!f)
		return 0;
	MUST(fscanf(f, "%u", &id) == 1);
	fclose(f);
	return id;
}

/* A property of the topology's node of a GPU; 0 if there is none of this name. */
static inline uint64_t gpu_property(uint32_t gpu, const char *name)
{
	unsigned long long value, found = 0;
	char path[80], key[64];
	FILE *f;
	int node;

	for (node = 0; node < 16 && topology_gpu_id(node) != gpu; node++)
		;
	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%d/properties", node);
	f = fopen(path, "r");
	MUST(f);
	while (fscanf(f, "%63s %llu", key, &value) == 2)
		if (!strcmp(key, name))
			found = value;
	fclose(f);
	return found;
}

/* Of the first GPU. */
static inline uint32_t gpu_id(void)
{
	uint32_t id = topology_gpu_id(1);

	MUST(id);
	return id;
}

/* The MQD of an SDMA queue on the first GPU (v10_structs.h:v10_sdma_mqd and those of the other versions @ 6.12.117). */
static inline uint32_t sdma_mqd_bytes(void)
{
	return gpu_property(gpu_id(), "gfx_target_version") / 10000 == 10 ? 520 : 512;
}

/* A file without a VM; acquire() gives it one. */
static inline struct gpu open_gpu(void)
{
	struct gpu g = { .kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC),
			 .render = open(RENDER_NODE, O_RDWR | O_CLOEXEC), .id = gpu_id() };

	MUST(g.kfd >= 0 && g.render >= 0);
	return g;
}

static inline int criu_op(int kfd, uint32_t op, struct kfd_ioctl_criu_args *a)
{
	a->op = op;
	return try_ioctl(kfd, AMDKFD_IOC_CRIU_OP, a);
}

/* An operation that needs no more than a pid, or nothing. */
static inline int criu_simple(int kfd, uint32_t op, pid_t pid)
{
	struct kfd_ioctl_criu_args a = { .pid = pid };

	return criu_op(kfd, op, &a);
}

static inline int acquire(const struct gpu *g, int render)
{
	struct kfd_ioctl_acquire_vm_args a = { .drm_fd = render, .gpu_id = g->id };

	return try_ioctl(g->kfd, AMDKFD_IOC_ACQUIRE_VM, &a);
}

/* user: CPU address of a userptr, else 0. */
static inline int allocate(const struct gpu *g, struct memory *m, uint64_t va, uint64_t size,
			   uint32_t flags, uint64_t user)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = { .va_addr = va, .size = size,
							.mmap_offset = user, .gpu_id = g->id,
							.flags = flags };
	int ret = try_ioctl(g->kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a);

	*m = (struct memory){ a.handle, va, size, a.mmap_offset, NULL };
	return ret;
}

static inline int map_gpu(const struct gpu *g, const struct memory *m)
{
	uint32_t id = g->id;
	struct kfd_ioctl_map_memory_to_gpu_args a = { .handle = m->handle, .n_devices = 1,
						      .device_ids_array_ptr = (uintptr_t)&id };
	int ret = try_ioctl(g->kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &a);

	CHECK(ret || a.n_success == 1);
	return ret;
}

static inline int unmap_gpu(const struct gpu *g, const struct memory *m)
{
	uint32_t id = g->id;
	struct kfd_ioctl_unmap_memory_from_gpu_args a = { .handle = m->handle, .n_devices = 1,
							  .device_ids_array_ptr = (uintptr_t)&id };

	return try_ioctl(g->kfd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &a);
}

static inline int free_gpu(const struct gpu *g, const struct memory *m)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = { .handle = m->handle };

	return try_ioctl(g->kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &a);
}

/* At its GPU address, through the render node of the VM. */
static inline void map_cpu(const struct gpu *g, struct memory *m)
{
	m->cpu = mmap((void *)m->va, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		      g->render, m->offset);
	MUST(m->cpu != MAP_FAILED);
}

/* Allocated, mapped for GPU and CPU. */
static inline struct memory make(const struct gpu *g, uint64_t va, uint64_t size, uint32_t type)
{
	struct memory m;

	MUST(!allocate(g, &m, va, size, type | WRITABLE, 0));
	MUST(!map_gpu(g, &m));
	map_cpu(g, &m);
	return m;
}

static inline uint64_t available(const struct gpu *g)
{
	struct kfd_ioctl_get_available_memory_args a = { .gpu_id = g->id };

	MUST(!try_ioctl(g->kfd, AMDKFD_IOC_AVAILABLE_MEMORY, &a));
	return a.available;
}

static inline int set_event(const struct gpu *g, uint32_t id)
{
	struct kfd_ioctl_set_event_args a = { .event_id = id };

	return try_ioctl(g->kfd, AMDKFD_IOC_SET_EVENT, &a);
}

/* page: handle of the signal page, needed once. */
static inline int create_event(const struct gpu *g, uint32_t type, int auto_reset, uint64_t page,
			       uint32_t *id)
{
	struct kfd_ioctl_create_event_args a = { .event_page_offset = page, .event_type = type,
						 .auto_reset = auto_reset };
	int ret = try_ioctl(g->kfd, AMDKFD_IOC_CREATE_EVENT, &a);

	*id = a.event_id;
	return ret;
}

/* Result of WAIT_EVENTS (0 complete, 1 timeout, 2 fail) or -errno. */
static inline int wait_event(const struct gpu *g, uint32_t id, uint32_t ms)
{
	struct kfd_event_data data = { .event_id = id };
	struct kfd_ioctl_wait_events_args a = { .events_ptr = (uintptr_t)&data, .num_events = 1,
						.timeout = ms };
	int ret = try_ioctl(g->kfd, AMDKFD_IOC_WAIT_EVENTS, &a);

	return ret ? ret : (int)a.wait_result;
}

/*
 * An SDMA queue in 64 KiB of addresses: its ring fills a GTT buffer, and the read and write pointers (bytes) begin
 * another
 * of one page, with a few words for tests behind them. Queues are made of whole mappings
 * (kfd_queue.c:kfd_queue_acquire_buffers @ 6.12.117).
 */
struct sdma_queue {
	uint32_t id;
	uint64_t doorbell_offset;
	volatile uint64_t *doorbell;
	uint32_t *ring;
	volatile uint64_t *rptr, *wptr, *words;
	uint64_t words_va;
};

#define DOORBELL_SLICE 8192

/* The doorbell CREATE_QUEUE gave an offset for, in a mapping of its own. */
static inline volatile uint64_t *map_doorbell(const struct gpu *g, uint64_t offset)
{
	char *p = mmap(NULL, DOORBELL_SLICE, PROT_READ | PROT_WRITE, MAP_SHARED, g->kfd,
		       offset & ~(DOORBELL_SLICE - 1ull));

	MUST(p != MAP_FAILED);
	return (uint64_t *)(p + offset % DOORBELL_SLICE);
}

#define QUEUE_BYTES (64 * 1024)
#define RING_BYTES (32 * 1024)
#define PAGE_BYTES 4096

/* The memory of a queue at va. */
static inline void make_ring(const struct gpu *g, uint64_t va)
{
	make(g, va, RING_BYTES, GTT);
	make(g, va + RING_BYTES, PAGE_BYTES, GTT);
}

static inline void find_queue(struct sdma_queue *q, uint64_t va)
{
	q->ring = (uint32_t *)va;
	q->rptr = (uint64_t *)(va + RING_BYTES);
	q->wptr = (uint64_t *)(va + RING_BYTES + 64);
	q->words_va = va + RING_BYTES + 128;
	q->words = (uint64_t *)q->words_va;
}

/* type: KFD_IOC_QUEUE_TYPE_SDMA...; engine: for SDMA_BY_ENG_ID. */
static inline int create_queue_on(const struct gpu *g, struct sdma_queue *q, uint64_t va,
				  uint32_t type, uint32_t engine)
{
	struct kfd_ioctl_create_queue_args a = {
		.ring_base_address = va, .read_pointer_address = va + RING_BYTES,
		.write_pointer_address = va + RING_BYTES + 64, .ring_size = RING_BYTES,
		.gpu_id = g->id, .queue_type = type, .queue_percentage = 100,
		.sdma_engine_id = engine,
	};
	int ret = try_ioctl(g->kfd, AMDKFD_IOC_CREATE_QUEUE, &a);

	q->id = a.queue_id;
	q->doorbell_offset = a.doorbell_offset;
	find_queue(q, va);
	q->doorbell = ret ? NULL : map_doorbell(g, a.doorbell_offset);
	return ret;
}

static inline int create_queue(const struct gpu *g, struct sdma_queue *q, uint64_t va)
{
	return create_queue_on(g, q, va, KFD_IOC_QUEUE_TYPE_SDMA, 0);
}

/* Into the ring, then the write pointer, then the doorbell. */
static inline void put_dwords(struct sdma_queue *q, const uint32_t *dw, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		q->ring[(*q->wptr / 4 + i) % (RING_BYTES / 4)] = dw[i];
	__atomic_store_n(q->wptr, *q->wptr + n * 4, __ATOMIC_RELEASE);
	*q->doorbell = *q->wptr;
}

static inline void put_copy(struct sdma_queue *q, uint64_t dst, uint64_t src, uint32_t len)
{
	uint32_t dw[7] = { 1, len - 1, 0, src, src >> 32, dst, dst >> 32 };

	put_dwords(q, dw, 7);
}

static inline void put_fence(struct sdma_queue *q, uint64_t va, uint32_t value)
{
	uint32_t dw[4] = { 5, va, va >> 32, value };

	put_dwords(q, dw, 4);
}

/* Wait until the 32-bit word at va equals value. */
static inline void put_wait(struct sdma_queue *q, uint64_t va, uint32_t value)
{
	uint32_t dw[6] = { 8 | 3u << 28 | 1u << 31, va, va >> 32, value, ~0u, 0 };

	put_dwords(q, dw, 6);
}

static inline void put_trap(struct sdma_queue *q, uint32_t event)
{
	uint32_t dw[2] = { 6, event };

	put_dwords(q, dw, 2);
}

/* Has everything been consumed within ms? */
static inline int drained(struct sdma_queue *q, int ms)
{
	uint64_t end = now_ns() + ms * 1000000ull;

	while (__atomic_load_n(q->rptr, __ATOMIC_ACQUIRE) != *q->wptr) {
		if (now_ns() > end)
			return 0;
		usleep(500);
	}
	return 1;
}

#endif
