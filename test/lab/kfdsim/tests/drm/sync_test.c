// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Syncobjs, timelines and sync files around submissions, through libdrm_amdgpu. */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/wait.h>
#include <xf86drm.h>

#include "child.h"
#include "drm/submit.h"

#define MS 1000000ull
#define COPY_MBPS "20"	/* 4 MiB take 209.7 ms */
#define COPY_BYTES (4 * MIB)

static struct buffer from, to;
static struct drm_amdgpu_bo_list_entry listed[3];	/* both, and the IB */

static void list_buffers(void)
{
	const struct buffer *const all[3] = { &ib, &from, &to };

	for (int i = 0; i < 3; i++)
		MUST(!amdgpu_bo_export(all[i]->bo, amdgpu_bo_handle_type_kms, &listed[i].bo_handle));
}

/* A chunk of one syncobj; point is for timeline chunks. */
static struct drm_amdgpu_cs_chunk sync_chunk(uint32_t id, void *data)
{
	int timeline = id == AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT ||
		       id == AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL;

	return (struct drm_amdgpu_cs_chunk){ .chunk_id = id, .length_dw = timeline ? 4 : 1,
					     .chunk_data = (uintptr_t)data };
}

/* Copy bytes (4 MiB at most) on a ring, with more chunks around it. 0 or -errno. */
static int submit_copy(uint32_t ring, uint64_t bytes, struct drm_amdgpu_cs_chunk *more, int n,
		       uint64_t *seq)
{
	struct drm_amdgpu_cs_chunk_ib info = { .va_start = ib.va + ring * KIB, .ib_bytes = 64,
					       .ip_type = AMDGPU_HW_IP_DMA, .ring = ring };
	struct drm_amdgpu_cs_chunk chunks[4] = {
		{ .chunk_id = AMDGPU_CHUNK_ID_IB, .length_dw = sizeof(info) / 4,
		  .chunk_data = (uintptr_t)&info },
	};
	uint32_t *dw = (uint32_t *)((char *)ib.cpu + ring * KIB), list;
	int ret;

	memset(dw, 0, 64);
	copy_packet(dw, to.va, from.va, bytes - 1);
	memcpy(chunks + 1, more, n * sizeof(*more));
	MUST(!amdgpu_bo_list_create_raw(dev, 3, listed, &list));
	ret = amdgpu_cs_submit_raw2(dev, ctx, list, 1 + n, chunks, seq);
	CHECK(!amdgpu_bo_list_destroy_raw(dev, list));
	return ret;
}

static int wait_syncobj(uint32_t handle, uint64_t ns)
{
	return amdgpu_cs_syncobj_wait(dev, &handle, 1, ns == AMDGPU_TIMEOUT_INFINITE ?
				      INT64_MAX : (int64_t)(now_ns() + ns), 0, NULL);
}

static void test_plain(void)
{
	uint32_t first, second, signalled, none = 4711;
	struct drm_amdgpu_cs_chunk out[2], both[2];
	uint64_t seq, start = now_ns(), ns;

	MUST(!amdgpu_cs_create_syncobj(dev, &first) && !amdgpu_cs_create_syncobj(dev, &second));
	MUST(!amdgpu_cs_create_syncobj2(dev, DRM_SYNCOBJ_CREATE_SIGNALED, &signalled));
	IS(wait_syncobj(first, 0), -EINVAL);
	IS(wait_syncobj(signalled, 0), 0);

	set_parameter("dma_mbps", COPY_MBPS);
	out[0] = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &first);
	IS(submit_copy(0, COPY_BYTES, out, 1, &seq), 0);
	/* The other engine is idle, but has to wait for the first. */
	both[0] = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_IN, &first);
	both[1] = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &second);
	IS(submit_copy(1, COPY_BYTES / 4, both, 2, &seq), 0);
	IS(wait_syncobj(first, 0), -ETIME);
	IS(wait_syncobj(first, 20 * MS), -ETIME);
	IS(wait_syncobj(first, AMDGPU_TIMEOUT_INFINITE), 0);
	ns = now_ns() - start;
	CHECK(ns >= 209 * MS && ns < 400 * MS);
	IS(wait_syncobj(second, 0), -ETIME);
	IS(wait_syncobj(second, AMDGPU_TIMEOUT_INFINITE), 0);
	ns = now_ns() - start;
	CHECK(ns >= 262 * MS && ns < 500 * MS);
	CHECK(!memcmp(to.cpu, from.cpu, COPY_BYTES));
	set_parameter("dma_mbps", "0");

	IS(amdgpu_cs_syncobj_reset(dev, &first, 1), 0);
	IS(wait_syncobj(first, 0), -EINVAL);
	/* One without a fence cannot be waited for by a submission. */
	out[0] = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_IN, &first);
	IS(submit_copy(0, 4096, out, 1, &seq), -EINVAL);
	IS(amdgpu_cs_syncobj_signal(dev, &first, 1), 0);
	IS(submit_copy(0, 4096, out, 1, &seq), 0);
	out[0] = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_IN, &none);
	IS(submit_copy(0, 4096, out, 1, &seq), -ENOENT);
	out[0] = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &none);
	IS(submit_copy(0, 4096, out, 1, &seq), -EINVAL);
	out[0] = out[1] = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &first);
	IS(submit_copy(0, 4096, out, 2, &seq), -EINVAL);
	out[0] = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, (void *)8);
	IS(submit_copy(0, 4096, out, 1, &seq), -EFAULT);
	out[0].length_dw = ~0u;
	if (!skip_on_real("the kernel warns of so large a chunk: mm/util.c:__kvmalloc_node_noprof @ 6.12.117"))
		IS(submit_copy(0, 4096, out, 1, &seq), -ENOMEM);
	IS(amdgpu_cs_destroy_syncobj(dev, first), 0);
	CHECK(amdgpu_cs_destroy_syncobj(dev, first) < 0 && errno == EINVAL);
	CHECK(!amdgpu_cs_destroy_syncobj(dev, second));
	CHECK(!amdgpu_cs_destroy_syncobj(dev, signalled));
}

static int wait_point(uint32_t handle, uint64_t point, uint64_t ns)
{
	return amdgpu_cs_syncobj_timeline_wait(dev, &handle, &point, 1, now_ns() + ns, 0, NULL);
}

static void test_timeline(void)
{
	struct drm_amdgpu_cs_chunk_syncobj point = {}, missing = {};
	struct drm_amdgpu_cs_chunk out, in;
	uint64_t seq, value = 0, signal = 9;
	uint32_t line, copy;

	MUST(!amdgpu_cs_create_syncobj(dev, &line) && !amdgpu_cs_create_syncobj(dev, &copy));
	point.handle = missing.handle = line;
	point.point = 5;
	missing.point = 6;
	out = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point);
	in = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &missing);
	set_parameter("dma_mbps", COPY_MBPS);
	IS(submit_copy(0, COPY_BYTES, &out, 1, &seq), 0);
	IS(wait_point(line, 5, 0), -ETIME);
	IS(amdgpu_cs_syncobj_query(dev, &line, &value, 1), 0);
	CHECK(value == 0);
	IS(submit_copy(1, 4096, &in, 1, &seq), -EINVAL);
	missing.point = 5;
	IS(submit_copy(1, 4096, &in, 1, &seq), 0);
	IS(amdgpu_cs_syncobj_transfer(dev, copy, 0, line, 5, 0), 0);
	struct amdgpu_cs_fence fence = { .context = ctx, .ip_type = AMDGPU_HW_IP_DMA, .ring = 1,
					 .fence = seq };
	uint32_t expired = 1;

	IS(amdgpu_cs_query_fence_status(&fence, 0, 0, &expired), 0);
	CHECK(!expired);
	IS(wait_point(line, 5, 1000 * MS), 0);
	IS(wait_point(line, 3, 0), 0);
	IS(wait_syncobj(copy, 0), 0);
	set_parameter("dma_mbps", "0");
	IS(amdgpu_cs_syncobj_query(dev, &line, &value, 1), 0);
	CHECK(value == 5);
	IS(amdgpu_cs_syncobj_timeline_signal(dev, &line, &signal, 1), 0);
	IS(amdgpu_cs_syncobj_query(dev, &line, &value, 1), 0);
	CHECK(value == 9);
	CHECK(!amdgpu_cs_destroy_syncobj(dev, line) && !amdgpu_cs_destroy_syncobj(dev, copy));
}

/* The fence of a submission as every kind of object; all end when it ends. */
static void test_fence_to_handle(void)
{
	struct amdgpu_cs_fence fence = { .context = ctx, .ip_type = AMDGPU_HW_IP_DMA };
	uint32_t handle, shared_fd, sync_fd, imported, again;
	struct pollfd poll_fd;
	uint64_t ns;
	int exported;

	set_parameter("dma_mbps", COPY_MBPS);
	ns = now_ns();
	IS(submit_copy(0, COPY_BYTES, NULL, 0, &fence.fence), 0);
	IS(amdgpu_cs_fence_to_handle(dev, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &handle), 0);
	IS(amdgpu_cs_fence_to_handle(dev, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD,
				     &shared_fd), 0);
	IS(amdgpu_cs_fence_to_handle(dev, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD,
				     &sync_fd), 0);
	IS(amdgpu_cs_fence_to_handle(dev, &fence, 3, &again), -EINVAL);
	IS(amdgpu_cs_import_syncobj(dev, shared_fd, &imported), 0);
	IS(amdgpu_cs_create_syncobj(dev, &again), 0);
	IS(amdgpu_cs_syncobj_import_sync_file(dev, again, sync_fd), 0);
	IS(amdgpu_cs_syncobj_export_sync_file(dev, handle, &exported), 0);
	IS(wait_syncobj(handle, 0), -ETIME);
	IS(wait_syncobj(imported, 0), -ETIME);
	IS(wait_syncobj(again, 0), -ETIME);
	poll_fd = (struct pollfd){ .fd = exported, .events = POLLIN };
	CHECK(poll(&poll_fd, 1, 0) == 0);
	usleep(20000); /* a scheduler of the kernel begins when it has its turn */
	CHECK(counter("fences") > 0);
	CHECK(poll(&poll_fd, 1, 1000) == 1);
	ns = now_ns() - ns;
	CHECK(ns >= 209 * MS && ns < 400 * MS);
	IS(wait_syncobj(handle, 0), 0);
	IS(wait_syncobj(imported, 0), 0);
	IS(wait_syncobj(again, 0), 0);
	set_parameter("dma_mbps", "0");
	CHECK(!amdgpu_cs_destroy_syncobj(dev, handle));
	CHECK(!amdgpu_cs_destroy_syncobj(dev, imported));
	CHECK(!amdgpu_cs_destroy_syncobj(dev, again));
	close(shared_fd);
	close(sync_fd);
	close(exported);
	fence.fence += 1;
	IS(amdgpu_cs_fence_to_handle(dev, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &handle),
	   -EINVAL);
	/* One that is over long since is signalled at once. */
	fence.fence = 1;
	IS(amdgpu_cs_fence_to_handle(dev, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &handle), 0);
	IS(wait_syncobj(handle, 0), 0);
	CHECK(!amdgpu_cs_destroy_syncobj(dev, handle));
}

/* A submission of this process, waited for by another one and its file. */
static void test_processes(void)
{
	struct drm_amdgpu_cs_chunk out;
	uint32_t handle, theirs;
	int shared, status, other;
	uint64_t seq, start = now_ns();

	MUST(!amdgpu_cs_create_syncobj(dev, &handle));
	MUST(!amdgpu_cs_export_syncobj(dev, handle, &shared));
	out = sync_chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &handle);
	set_parameter("dma_mbps", COPY_MBPS);
	if (!fork()) {
		failures = 0;
		other = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
		MUST(other >= 0 && !drmSyncobjFDToHandle(other, shared, &theirs));
		IS(drmSyncobjWait(other, &theirs, 1, now_ns() + 2000 * MS,
				  DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, NULL), 0);
		CHECK(now_ns() - start >= 209 * MS);
		exit(failures);
	}
	IS(submit_copy(0, COPY_BYTES, &out, 1, &seq), 0);
	wait(&status);
	CHECK(status == 0);
	/* Everything is left to the end of the process, with a fence that is not over. */
	IS(submit_copy(0, COPY_BYTES, &out, 1, &seq), 0);
	set_parameter("dma_mbps", "0");
	close(shared);
}

static void child(void)
{
	open_device();
	from = make(COPY_BYTES, AMDGPU_GEM_DOMAIN_GTT);
	to = make(COPY_BYTES, AMDGPU_GEM_DOMAIN_VRAM);
	list_buffers();
	fill(from.cpu, from.size, 3);
	test_plain();
	test_timeline();
	test_fence_to_handle();
	test_processes();
}

int main(void)
{
	in_child("sync_test, a life", child);
	return report("sync_test");
}
