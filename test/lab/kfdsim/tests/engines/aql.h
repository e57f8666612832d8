/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * An AQL queue without ROCr, and micro-operations for it: 64 packets in a GTT buffer of their own, the pointers in
 * another,
 * kernel objects, and arguments and a signal per packet in a third, the save area in a fourth.
 */
#ifndef KFDSIM_TEST_AQL_H
#define KFDSIM_TEST_AQL_H

#include "kfd/kfd.h"
#include "microop.h"

#define AQL_PACKETS 64
#define AQL_RPTR 0x2000
#define AQL_WPTR 0x2040
#define AQL_OBJECTS 0x3000
#define AQL_ARGS 0x4000
#define AQL_SIGNALS 0x5000
#define AQL_REST_BYTES 0xd000
#define AQL_SAVE 0x100000
#define AQL_DISPATCH 2
#define GPU_CLOCK_HZ 100000000ull

struct signal {
	uint64_t kind;
	int64_t value;
	uint64_t mailbox;
	uint32_t event, reserved;
	uint64_t start, end, queue, reserved2;
};

struct dispatch_packet {
	uint16_t header, setup, sizes[4];
	uint32_t grid[3], segments[2];
	uint64_t kernel_object, kernarg_address, reserved, completion_signal;
};

struct aql_queue {
	uint32_t id;
	uint64_t doorbell_offset;
	volatile uint64_t *doorbell, *rptr, *wptr;
	char *base;
};

_Static_assert(sizeof(struct dispatch_packet) == 64, "an AQL packet has 64 bytes");
_Static_assert(sizeof(struct signal) == 64, "a signal has 64 bytes");

static inline void find_aql(struct aql_queue *q, uint64_t va)
{
	q->base = (char *)va;
	q->rptr = (uint64_t *)(q->base + AQL_RPTR);
	q->wptr = (uint64_t *)(q->base + AQL_WPTR);
}

static inline uint32_t ctl_stack_size(const struct gpu *g)
{
	return gpu_property(g->id, "ctl_stack_size");
}

/* What the debugger has of the save area of each XCC; the topology does not tell
 * (kfd_queue.c:kfd_queue_ctx_save_restore_size @ 6.12.117). */
static inline uint64_t debugger_size(const struct gpu *g)
{
	uint64_t xccs = gpu_property(g->id, "num_xcc");
	uint64_t cus = gpu_property(g->id, "simd_count") / gpu_property(g->id, "simd_per_cu") / (xccs ? xccs : 1);
	uint64_t most = gpu_property(g->id, "array_count") / gpu_property(g->id, "simd_arrays_per_engine") * 512;
	uint64_t waves = cus * 32;

	if (gpu_property(g->id, "gfx_target_version") < 100100)
		waves = cus * 40 < most ? cus * 40 : most;
	return (waves * 32 + 63) & ~63ull;
}

/* The save area of all XCCs, and the debugger's part: the buffer has to be just as large. */
static inline uint64_t save_area_bytes(const struct gpu *g)
{
	uint64_t xccs = gpu_property(g->id, "num_xcc");
	uint64_t size = (gpu_property(g->id, "cwsr_size") + debugger_size(g)) * (xccs ? xccs : 1);

	return (size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1ull);
}

/* The memory of a queue at va. */
static inline void make_aql(const struct gpu *g, uint64_t va)
{
	make(g, va, AQL_PACKETS * 64, GTT);
	make(g, va + AQL_RPTR, PAGE_BYTES, GTT);
	make(g, va + AQL_OBJECTS, AQL_REST_BYTES, GTT);
	make(g, va + AQL_SAVE, save_area_bytes(g), GTT);
}

static inline struct kfd_ioctl_create_queue_args aql_args(const struct gpu *g, uint64_t va)
{
	return (struct kfd_ioctl_create_queue_args){
		.ring_base_address = va, .ring_size = AQL_PACKETS * 64,
		.read_pointer_address = va + AQL_RPTR, .write_pointer_address = va + AQL_WPTR,
		.ctx_save_restore_address = va + AQL_SAVE,
		.ctx_save_restore_size = gpu_property(g->id, "cwsr_size"),
		.ctl_stack_size = ctl_stack_size(g), .gpu_id = g->id, .queue_percentage = 100,
		.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
	};
}

/* Over what make_aql() has made. Object n of the buffer is operation n; 0 is none. */
static inline int create_aql(const struct gpu *g, struct aql_queue *q, uint64_t va)
{
	struct kfd_ioctl_create_queue_args a = aql_args(g, va);
	struct kfdsim_microop *objects;
	int ret;

	find_aql(q, va);
	for (uint32_t i = 0; i < AQL_PACKETS; i++)
		((struct dispatch_packet *)va)[i].header = 1;
	objects = (struct kfdsim_microop *)(q->base + AQL_OBJECTS);
	for (uint32_t i = 1; i <= KFDSIM_OP_SPIN; i++)
		objects[i] = (struct kfdsim_microop){ KFDSIM_MICROOP_MAGIC,
						      KFDSIM_MICROOP_VERSION, i };
	ret = try_ioctl(g->kfd, AMDKFD_IOC_CREATE_QUEUE, &a);
	q->id = a.queue_id;
	q->doorbell_offset = a.doorbell_offset;
	q->doorbell = ret ? NULL : map_doorbell(g, a.doorbell_offset);
	return ret;
}

static inline volatile struct signal *signal_of(struct aql_queue *q, uint64_t index)
{
	return (struct signal *)(q->base + AQL_SIGNALS) + index % AQL_PACKETS;
}

/* A packet for operation number object, without the doorbell. Its index, also of its signal. */
static inline uint64_t put_dispatch(struct aql_queue *q, uint32_t object, uint64_t address,
				    uint64_t size, uint32_t value, uint32_t step_us)
{
	uint64_t index = *q->wptr, va = (uint64_t)q->base;
	struct dispatch_packet *p = (struct dispatch_packet *)q->base + index % AQL_PACKETS;
	struct kfdsim_microop_args *args = (struct kfdsim_microop_args *)(q->base + AQL_ARGS) +
					   index % AQL_PACKETS;

	*args = (struct kfdsim_microop_args){ address, size, value, step_us };
	*signal_of(q, index) = (struct signal){ .value = 1 };
	p->kernel_object = va + AQL_OBJECTS + object * sizeof(struct kfdsim_microop);
	p->kernarg_address = (uintptr_t)args;
	p->completion_signal = (uintptr_t)signal_of(q, index);
	*q->wptr = index + 1;
	__atomic_store_n(&p->header, AQL_DISPATCH, __ATOMIC_RELEASE);
	return index;
}

static inline uint64_t dispatch(struct aql_queue *q, uint32_t object, uint64_t address,
				uint64_t size, uint32_t value, uint32_t step_us)
{
	uint64_t index = put_dispatch(q, object, address, size, value, step_us);

	*q->doorbell = index;
	return index;
}

/* Is packet index complete within ms? */
static inline int completed(struct aql_queue *q, uint64_t index, int ms)
{
	uint64_t end = now_ns() + ms * 1000000ull;

	while (__atomic_load_n(&signal_of(q, index)->value, __ATOMIC_ACQUIRE) > 0) {
		if (now_ns() > end)
			return 0;
		usleep(500);
	}
	return 1;
}

/* How many words of a buffer have this value? */
static inline uint32_t count_words(const volatile uint32_t *words, uint32_t n, uint32_t value)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++)
		found += words[i] == value;
	return found;
}

#endif
