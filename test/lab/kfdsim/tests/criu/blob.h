/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Private data of CRIU_OP made by hand, from the offsets the real kernel has on x86-64. Nothing
 * is shared with the module: what it writes and takes is measured against this.
 */
#ifndef KFDSIM_TEST_BLOB_H
#define KFDSIM_TEST_BLOB_H

#include "engines/aql.h"
#include "kernel.h"

#define BLOB_BYTES (256 * 1024)
#define BLOB_BOS 16
#define BLOB_QUEUE_BYTES 120
#define BLOB_EVENT_BYTES 64
#define BLOB_SVM_BYTES (24 + 8 * 5)	/* with one GPU */
#define BLOB_MQD_COMPUTE 2048

struct blob {
	struct kfd_criu_device_bucket device;
	struct kfd_criu_bo_bucket bos[BLOB_BOS];
	uint32_t nr_bos, nr_objects;
	size_t used;
	uint8_t data[BLOB_BYTES];
};

static inline void put32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

static inline void put64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

static inline uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline uint64_t get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* user_id: what the process that was saved called the GPU. */
static inline void blob_begin(struct blob *b, uint32_t user_id)
{
	memset(b, 0, sizeof(*b));
	b->device.user_gpu_id = user_id;
	b->device.actual_gpu_id = gpu_id();
	put32(b->data, 1);
	b->used = 8 + 8;
}

/* Before any object: the BOs' private data comes first. */
static inline void blob_bo(struct blob *b, uint64_t va, uint64_t size, uint32_t flags,
			   uint32_t handle, uint64_t user_addr)
{
	struct kfd_criu_bo_bucket *bucket = &b->bos[b->nr_bos++];
	uint8_t *at = b->data + b->used;

	*bucket = (struct kfd_criu_bo_bucket){ .addr = va, .size = size, .alloc_flags = flags,
					       .gpu_id = b->device.user_gpu_id };
	put64(at, user_addr);
	put32(at + 8, handle);
	put32(at + 12, b->device.user_gpu_id);
	b->used += kernel_now()->bo_bytes;
}

/* What a queue at va is made of, as make_ring() makes it, and a save area behind 1 MiB; handles from handle on. */
static inline void blob_ring(struct blob *b, uint64_t va, uint32_t handle)
{
	blob_bo(b, va, RING_BYTES, GTT | WRITABLE, handle, 0);
	blob_bo(b, va + RING_BYTES, PAGE_BYTES, GTT | WRITABLE, handle + 1, 0);
}

static inline void blob_compute_bos(struct blob *b, uint64_t va, uint32_t handle)
{
	const struct gpu g = { .id = gpu_id() };

	blob_ring(b, va, handle);
	blob_bo(b, va + AQL_SAVE, save_area_bytes(&g), GTT | WRITABLE, handle + 2, 0);
}

static inline uint8_t *blob_object(struct blob *b, uint32_t type, size_t bytes)
{
	uint8_t *at = b->data + b->used;

	b->nr_objects++;
	b->used += bytes;
	MUST(b->used <= sizeof(b->data));
	put32(at, type);
	return at;
}

/* The engine's MQD: of a queue at position 0, with that much control stack. */
static inline void blob_mqd(uint8_t *at, uint32_t ctl_stack)
{
	put32(at, 0x6d646b73);
	put32(at + 28, ctl_stack);
}

/* Ring, read and write pointers as in find_queue(). */
static inline uint8_t *blob_queue(struct blob *b, uint32_t type, uint64_t va, uint32_t id,
				  uint32_t doorbell, uint32_t mqd, uint32_t ctl_stack)
{
	uint8_t *at = blob_object(b, 0, BLOB_QUEUE_BYTES + mqd + ctl_stack);

	put64(at + 8, va);
	put64(at + 16, RING_BYTES);
	put64(at + 24, va + RING_BYTES);
	put64(at + 32, va + RING_BYTES + 64);
	put32(at + 64, b->device.user_gpu_id);
	put32(at + 68, type);
	put32(at + 72, type == 0);
	put32(at + 76, id);
	put32(at + 84, 100);
	put32(at + 88, doorbell);
	if (type == 0) {
		put64(at + 56, va + AQL_SAVE);
		put32(at + 104, gpu_property(gpu_id(), "cwsr_size"));
	}
	put32(at + 108, ctl_stack);
	put32(at + 112, mqd);
	blob_mqd(at + BLOB_QUEUE_BYTES, ctl_stack);
	return at;
}

/* A compute queue on several XCCs: first the MQDs of all, then the control stacks, this long each. */
static inline uint8_t *blob_compute(struct blob *b, uint64_t va, uint32_t id, uint32_t doorbell,
				    uint32_t xccs, uint32_t ctl_stack)
{
	uint8_t *at = blob_queue(b, 0, va, id, doorbell, xccs * BLOB_MQD_COMPUTE, xccs * ctl_stack);

	for (uint32_t i = 0; i < xccs; i++)
		blob_mqd(at + BLOB_QUEUE_BYTES + i * BLOB_MQD_COMPUTE, ctl_stack);
	return at;
}

static inline uint8_t *blob_event(struct blob *b, uint32_t type, uint32_t id, uint64_t page)
{
	uint8_t *at = blob_object(b, 1, BLOB_EVENT_BYTES);

	put64(at + 8, page);
	put32(at + 16, id);
	put32(at + 24, type);
	return at;
}

/* Attributes of a range nobody asked anything of, then access (2, 3 or 4) of the one GPU. */
static inline uint8_t *blob_svm(struct blob *b, uint64_t va, uint64_t size, uint32_t access)
{
	uint8_t *at = blob_object(b, 2, BLOB_SVM_BYTES);
	const uint32_t attrs[5][2] = { { 0, ~0u }, { 1, ~0u }, { 5, 3 }, { 7, 9 },
				       { access, b->device.user_gpu_id } };

	put64(at + 8, va / 4096);
	put64(at + 16, size / 4096);
	memcpy(at + 24, attrs, sizeof(attrs));
	return at;
}

static inline struct kfd_ioctl_criu_args blob_args(struct blob *b)
{
	return (struct kfd_ioctl_criu_args){
		.devices = (uintptr_t)&b->device, .bos = (uintptr_t)b->bos,
		.priv_data = (uintptr_t)b->data, .priv_data_size = b->used, .num_devices = 1,
		.num_bos = b->nr_bos, .num_objects = b->nr_objects,
	};
}

/* RESTORE; the descriptors it gives are closed. */
static inline int blob_restore(struct blob *b, const struct gpu *g)
{
	struct kfd_ioctl_criu_args a = blob_args(b);
	int ret;

	b->device.drm_fd = g->render;
	ret = criu_op(g->kfd, KFD_CRIU_OP_RESTORE, &a);
	for (uint32_t i = 0; !ret && i < b->nr_bos; i++)
		if (b->bos[i].dmabuf_fd != KFD_INVALID_FD)
			close(b->bos[i].dmabuf_fd);
	return ret;
}

#endif
