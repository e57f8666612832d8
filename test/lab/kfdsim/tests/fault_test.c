// SPDX-License-Identifier: GPL-2.0 OR MIT
/* debugfs kfdsim/faults: every rule strikes when it should, once, and nothing else changes. */
#define _GNU_SOURCE
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <signal.h>
#include <sys/wait.h>

#include "child.h"
#include "kfd/kfd.h"

#define MIB (1024ull * 1024)
#define VA 0x200000000ull
#define RULES "/sys/kernel/debug/simgpu/faults"

static int rule(const char *fmt, ...)
{
	char line[128];
	va_list ap;
	int fd = open(RULES, O_WRONLY), n, ret;

	MUST(fd >= 0);
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	ret = write(fd, line, n) == n ? 0 : -errno;
	close(fd);
	return ret;
}

static void rules_are(const char *want)
{
	char got[512] = "";
	FILE *f = fopen(RULES, "r");

	MUST(f);
	got[fread(got, 1, sizeof(got) - 1, f)] = 0;
	fclose(f);
	check_at(__FILE__, __LINE__, !strcmp(got, want), "rules are \"%s\", wanted \"%s\"", got,
		 want);
}

static void test_syntax(void)
{
	static const char *const bad[] = {
		"", "kfd", "kfd 8 0 12", "kfd 8 1 0", "kfd 8 1 5000", "kfd 8 1 12 1", "kfd x 1 12",
		"copy 0 fail", "copy 1 burn", "copy 1 delay", "copy 1 delay 99999999999", "resume",
		"sdma 1", "vram 1 2 3", "kfd 99999999999999999999999 1 12", "clear all",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		IS(rule("%s", bad[i]), -EINVAL);
	rules_are("");
	IS(rule("kfd 0x08 3 12\n"), 0);
	IS(rule(" copy  7   flip 100"), 0);
	IS(rule("vram 1 4096"), 0);
	rules_are("kfd 8 3 12\ncopy 7 flip 100\nvram 1 4096\n");
	IS(rule("clear\n"), 0);
	rules_are("");
	for (int i = 0; i < 64; i++)
		MUST(!rule("kfd 99 1000 12"));
	IS(rule("kfd 99 1000 12"), -ENOSPC);
	IS(rule("clear"), 0);
}

static const struct gpu *gpu_with_vm(void)
{
	static struct gpu g;

	g = open_gpu();
	MUST(!acquire(&g, g.render));
	return &g;
}

static void test_ioctls(void)
{
	const struct gpu *g = gpu_with_vm();
	union drm_amdgpu_gem_create create = { .in = { .bo_size = 4096,
						       .domains = AMDGPU_GEM_DOMAIN_GTT } };
	uint32_t id;

	IS(rule("kfd 0x08 2 12"), 0);
	IS(create_event(g, KFD_IOC_EVENT_SIGNAL, 0, 0, &id), 0);
	rules_are("kfd 8 1 12\n");
	IS(set_event(g, id), 0);
	IS(create_event(g, KFD_IOC_EVENT_SIGNAL, 0, 0, &id), -ENOMEM);
	rules_are("");
	IS(create_event(g, KFD_IOC_EVENT_SIGNAL, 0, 0, &id), 0);

	IS(rule("drm 0x40 1 28"), 0);
	IS(try_ioctl(g->render, DRM_IOCTL_AMDGPU_GEM_CREATE, &create), -ENOSPC);
	IS(try_ioctl(g->render, DRM_IOCTL_AMDGPU_GEM_CREATE, &create), 0);
}

/* Copies of a user queue, two packets each time so that N is seen to count. */
static void test_copies(void)
{
	const struct gpu *g = gpu_with_vm();
	struct memory from = make(g, VA + 16 * MIB, MIB, VRAM), to = make(g, VA + 32 * MIB, MIB, GTT);
	struct sdma_queue q;
	uint32_t event;
	uint64_t ns;

	make_ring(g, VA);
	IS(create_queue(g, &q, VA), 0);
	for (uint64_t i = 0; i < MIB; i++)
		((uint8_t *)from.cpu)[i] = i * 7;

	IS(rule("copy 2 flip 32771"), 0);
	put_copy(&q, to.va, from.va, 65536);
	put_copy(&q, to.va + 65536, from.va + 65536, 65536);
	CHECK(drained(&q, 2000));
	CHECK(!memcmp(to.cpu, from.cpu, 65536));
	CHECK(memcmp((char *)to.cpu + 65536, (char *)from.cpu + 65536, 65536));
	((uint8_t *)to.cpu)[65536 + 4096] ^= 8;
	CHECK(!memcmp(to.cpu, from.cpu, 131072));

	IS(rule("copy 2 delay 300"), 0);
	ns = now_ns();
	put_copy(&q, to.va, from.va, 4096);
	CHECK(drained(&q, 2000));
	CHECK(now_ns() - ns < 200 * 1000000ull);
	put_copy(&q, to.va, from.va, 4096);
	put_fence(&q, q.words_va, 1);
	CHECK(drained(&q, 2000));
	ns = now_ns() - ns;
	CHECK(ns >= 300 * 1000000ull);

	IS(create_event(g, KFD_IOC_EVENT_MEMORY, 0, 0, &event), 0);
	IS(rule("copy 1 fail"), 0);
	memset(to.cpu, 0, 4096);
	put_copy(&q, to.va, from.va, 4096);
	IS(wait_event(g, event, 2000), KFD_IOC_WAIT_RESULT_COMPLETE);
	CHECK(!drained(&q, 50));
	CHECK(((uint8_t *)to.cpu)[1] == 0);
	rules_are("");
}

/* A submission whose copy fails is over, and says so to who waits for it. */
static void test_submission(void)
{
	struct amdgpu_bo_alloc_request req = { .alloc_size = 8192, .phys_alignment = 4096,
					       .preferred_heap = AMDGPU_GEM_DOMAIN_GTT };
	struct amdgpu_cs_ib_info info = { .size = 8 };
	struct amdgpu_cs_request cs = { .ip_type = AMDGPU_HW_IP_DMA, .number_of_ibs = 1,
					.ibs = &info };
	struct amdgpu_cs_fence fence = { .ip_type = AMDGPU_HW_IP_DMA };
	uint32_t major, minor, expired, *dw;
	amdgpu_context_handle ctx;
	amdgpu_device_handle dev;
	amdgpu_va_handle va;
	amdgpu_bo_handle bo;
	void *cpu;
	int fd = open(RENDER_NODE, O_RDWR | O_CLOEXEC);

	MUST(fd >= 0 && !amdgpu_device_initialize(fd, &major, &minor, &dev));
	MUST(!amdgpu_cs_ctx_create(dev, &ctx) && !amdgpu_bo_alloc(dev, &req, &bo));
	MUST(!amdgpu_va_range_alloc(dev, amdgpu_gpu_va_range_general, 8192, 4096, 0,
				    &info.ib_mc_address, &va, 0));
	MUST(!amdgpu_bo_va_op(bo, 0, 8192, info.ib_mc_address, 0, AMDGPU_VA_OP_MAP));
	MUST(!amdgpu_bo_cpu_map(bo, &cpu));
	MUST(!amdgpu_bo_list_create(dev, 1, &bo, NULL, &cs.resources));
	dw = cpu;
	memset(cpu, 0, 8192);
	dw[0] = 1;
	dw[1] = 63;
	dw[3] = info.ib_mc_address;
	dw[4] = info.ib_mc_address >> 32;
	dw[5] = dw[3] + 4096;
	dw[6] = dw[4];

	IS(rule("copy 1 fail"), 0);
	MUST(!amdgpu_cs_submit(ctx, 0, &cs, 1));
	fence.context = ctx;
	fence.fence = cs.seq_no;
	IS(amdgpu_cs_query_fence_status(&fence, 1000000000, 0, &expired), -ETIME);
	CHECK(dw[1024] == 0);
	/* That ring of the context takes no more, and no other submission of it is known any more. */
	IS(amdgpu_cs_submit(ctx, 0, &cs, 1), -ETIME);
	fence.fence = 1000;
	IS(amdgpu_cs_query_fence_status(&fence, 0, 0, &expired), -ETIME);
	amdgpu_cs_ctx_free(ctx);
	MUST(!amdgpu_cs_ctx_create(dev, &ctx));
	MUST(!amdgpu_cs_submit(ctx, 0, &cs, 1));
	fence.context = ctx;
	fence.fence = cs.seq_no;
	IS(amdgpu_cs_query_fence_status(&fence, 1000000000, 0, &expired), 0);
	CHECK(dw[1024] == 1);
	amdgpu_bo_list_destroy(cs.resources);
	amdgpu_bo_cpu_unmap(bo);
	amdgpu_bo_va_op(bo, 0, 8192, info.ib_mc_address, 0, AMDGPU_VA_OP_UNMAP);
	amdgpu_va_range_free(va);
	amdgpu_bo_free(bo);
	amdgpu_cs_ctx_free(ctx);
	amdgpu_device_deinitialize(dev);
	close(fd);
}

static void test_resources(void)
{
	const struct gpu *g = gpu_with_vm();
	struct kfd_ioctl_destroy_queue_args destroy = {};
	struct sdma_queue q;
	struct memory m;

	make_ring(g, VA);
	IS(rule("sdma %u 0", g->id), 0);
	IS(rule("sdma %u 0", g->id + 1), 0);
	IS(create_queue(g, &q, VA), 0);
	destroy.queue_id = q.id;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_DESTROY_QUEUE, &destroy), 0);
	for (int i = 1; i < 16; i++)
		MUST(!rule("sdma %u %d", g->id, i));
	IS(create_queue(g, &q, VA), -ENOMEM);
	IS(rule("clear"), 0);
	IS(create_queue(g, &q, VA), 0);

	/* The driver itself takes a part of it. */
	IS(rule("vram %u %llu", g->id, 64 * MIB), 0);
	IS(allocate(g, &m, VA + 16 * MIB, 96 * MIB, VRAM | WRITABLE, 0), -ENOMEM);
	IS(allocate(g, &m, VA + 16 * MIB, 96 * MIB, GTT | WRITABLE, 0), 0);
	IS(allocate(g, &m, VA + 256 * MIB, 16 * MIB, VRAM | WRITABLE, 0), 0);
	IS(allocate(g, &m, VA + 512 * MIB, 56 * MIB, VRAM | WRITABLE, 0), -ENOMEM);
	IS(rule("clear"), 0);
	IS(allocate(g, &m, VA + 512 * MIB, 56 * MIB, VRAM | WRITABLE, 0), 0);
}

/* A process without any object, restored: only the late half of RESUME is of interest. */
static void test_resume(void)
{
	struct gpu g = open_gpu();
	struct kfd_criu_device_bucket bucket = { .user_gpu_id = g.id, .actual_gpu_id = g.id,
						 .drm_fd = g.render };
	uint32_t blob[4] = { 1 };
	struct kfd_ioctl_criu_args args = { .op = KFD_CRIU_OP_RESTORE, .num_devices = 1,
					    .devices = (uintptr_t)&bucket,
					    .priv_data = (uintptr_t)blob,
					    .priv_data_size = sizeof(blob) };

	if (skip_on_real("RESUME's worker is the driver's own and cannot be held"))
		return;
	IS(rule("resume hold"), 0);
	IS(try_ioctl(g.kfd, AMDKFD_IOC_CRIU_OP, &args), 0);
	args = (struct kfd_ioctl_criu_args){ .op = KFD_CRIU_OP_RESUME, .pid = getpid() };
	IS(try_ioctl(g.kfd, AMDKFD_IOC_CRIU_OP, &args), 0);
	usleep(300000);
	CHECK(counter("evicted") == 1);
	IS(rule("clear"), 0);
	for (int i = 0; i < 100 && counter("evicted"); i++)
		usleep(10000);
	CHECK(counter("evicted") == 0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	MUST(!rule("clear"));
	in_child("fault_test, ioctls", test_ioctls);
	in_child("fault_test, copies", test_copies);
	in_child("fault_test, resources", test_resources);
	in_child("fault_test, RESUME", test_resume);
	MUST(!rule("clear"));
	test_syntax();
	if (!skip_on_real("a copy of a submission that fails hangs its engine until the driver's own reset"))
		test_submission();
	CHECK(gone(5000));
	return report("fault_test");
}
