/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Buffers and SDMA submissions through libdrm_amdgpu, for the tests. One device at a time. */
#ifndef KFDSIM_TEST_SUBMIT_H
#define KFDSIM_TEST_SUBMIT_H

#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <fcntl.h>
#include <unistd.h>

#include "check.h"

#define KIB 1024ull
#define MIB (1024ull * KIB)
#define MAP_FLAGS (AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE)

struct buffer {
	amdgpu_bo_handle bo;
	amdgpu_va_handle va_handle;
	uint64_t va, size;
	void *cpu;
};

static amdgpu_device_handle dev;
static amdgpu_context_handle ctx;
static struct buffer ib;
static int fd;

/* What is mapped: a submission lists all of it. */
static amdgpu_bo_handle mapped[16];
static uint32_t nr_mapped;

static inline void map_va(struct buffer *b)
{
	MUST(!amdgpu_va_range_alloc(dev, amdgpu_gpu_va_range_general, b->size, 4096, 0, &b->va,
				    &b->va_handle, 0));
	MUST(!amdgpu_bo_va_op_raw(dev, b->bo, 0, b->size, b->va, MAP_FLAGS, AMDGPU_VA_OP_MAP));
	MUST(nr_mapped < sizeof(mapped) / sizeof(*mapped));
	mapped[nr_mapped++] = b->bo;
}

/* From now on no submission lists it. */
static inline void unlist(struct buffer *b)
{
	for (uint32_t i = 0; i < nr_mapped; i++)
		if (mapped[i] == b->bo)
			mapped[i--] = mapped[--nr_mapped];
}

/* flags: AMDGPU_GEM_CREATE_* */
static inline struct buffer make_with(uint64_t size, uint32_t domain, uint64_t flags)
{
	struct amdgpu_bo_alloc_request req = { .alloc_size = size, .phys_alignment = 4096,
					       .preferred_heap = domain, .flags = flags };
	struct buffer b = { .size = size };

	MUST(!amdgpu_bo_alloc(dev, &req, &b.bo));
	map_va(&b);
	MUST(!amdgpu_bo_cpu_map(b.bo, &b.cpu));
	return b;
}

static inline struct buffer make(uint64_t size, uint32_t domain)
{
	return make_with(size, domain, 0);
}

static inline void drop(struct buffer *b)
{
	unlist(b);
	CHECK(!amdgpu_bo_va_op_raw(dev, b->bo, 0, b->size, b->va, 0, AMDGPU_VA_OP_UNMAP));
	CHECK(!amdgpu_va_range_free(b->va_handle));
	CHECK(!amdgpu_bo_free(b->bo));
}

/* count is the raw field: bytes minus one. */
static inline uint32_t copy_packet(uint32_t *dw, uint64_t dst, uint64_t src, uint32_t count)
{
	uint32_t packet[7] = { 1, count, 0, src, src >> 32, dst, dst >> 32 };

	memcpy(dw, packet, sizeof(packet));
	return 7;
}

static inline uint64_t submit(uint32_t slot, uint32_t dwords)
{
	struct amdgpu_cs_ib_info info = { .ib_mc_address = ib.va + slot * KIB, .size = dwords };
	struct amdgpu_cs_request req = { .ip_type = AMDGPU_HW_IP_DMA, .number_of_ibs = 1,
					 .ibs = &info };

	MUST(!amdgpu_bo_list_create(dev, nr_mapped, mapped, NULL, &req.resources));
	MUST(!amdgpu_cs_submit(ctx, 0, &req, 1));
	CHECK(!amdgpu_bo_list_destroy(req.resources));
	return req.seq_no;
}

static inline int done_within(uint64_t seq, uint64_t ns)
{
	struct amdgpu_cs_fence fence = { .context = ctx, .ip_type = AMDGPU_HW_IP_DMA,
					 .fence = seq };
	uint32_t expired = 0;

	CHECK(!amdgpu_cs_query_fence_status(&fence, ns, 0, &expired));
	return expired;
}

static inline uint64_t copy(uint32_t slot, uint64_t dst, uint64_t src, uint64_t len)
{
	uint32_t *dw = (uint32_t *)((char *)ib.cpu + slot * KIB), n = 0;
	uint64_t at, part;

	for (at = 0; at < len; at += part) {
		part = len - at < 2 * MIB ? len - at : 2 * MIB;
		n += copy_packet(dw + n, dst + at, src + at, part - 1);
	}
	while (n % 8)
		dw[n++] = 0;
	return submit(slot, n);
}

static inline void fill(void *p, uint64_t size, uint32_t seed)
{
	uint32_t *w = p;

	for (uint64_t i = 0; i < size / 4; i++)
		w[i] = seed + i * 2654435761u;
}

/* The first GPU, a context, and room for 64 IBs of 1 KiB. */
static inline void open_device(void)
{
	uint32_t major, minor;

	fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	MUST(fd >= 0);
	MUST(!amdgpu_device_initialize(fd, &major, &minor, &dev));
	CHECK(major == 3);
	MUST(!amdgpu_cs_ctx_create(dev, &ctx));
	ib = make(64 * KIB, AMDGPU_GEM_DOMAIN_GTT);
}

static inline void close_device(void)
{
	drop(&ib);
	CHECK(!amdgpu_cs_ctx_free(ctx));
	CHECK(!amdgpu_device_deinitialize(dev));
	close(fd);
}

#endif
