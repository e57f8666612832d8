// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The simulated render node through libdrm_amdgpu: handles, sharing, copies, errors. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/stat.h>
#include <xf86drm.h>

#include "drm/submit.h"

static void test_copies(void)
{
	struct buffer vram = make(8 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	struct buffer gtt = make(8 * MIB, AMDGPU_GEM_DOMAIN_GTT);
	uint64_t start, ns;

	fill(gtt.cpu, gtt.size, 1);
	start = now_ns();
	CHECK(done_within(copy(0, vram.va, gtt.va, vram.size), AMDGPU_TIMEOUT_INFINITE));
	ns = now_ns() - start;
	printf("simulated: 8 MiB GTT to VRAM, unlimited: %llu us\n", (unsigned long long)ns / 1000);
	CHECK(!memcmp(vram.cpu, gtt.cpu, vram.size));

	/* The count field is bytes - 1: a count of 10 moves 11 bytes and not 12. */
	memset(gtt.cpu, 0xaa, 64);
	memset(vram.cpu, 0x55, 64);
	copy_packet(ib.cpu, vram.va, gtt.va, 10);
	CHECK(done_within(submit(0, 7), AMDGPU_TIMEOUT_INFINITE));
	CHECK(((uint8_t *)vram.cpu)[10] == 0xaa && ((uint8_t *)vram.cpu)[11] == 0x55);

	/* One byte beyond the end of both mappings, then two. */
	long long faults = counter("gpu_faults");
	copy_packet(ib.cpu, vram.va, gtt.va, vram.size);
	CHECK(done_within(submit(0, 7), AMDGPU_TIMEOUT_INFINITE));
	CHECK(counter("gpu_faults") - faults == 1);
	faults = counter("gpu_faults");
	copy_packet(ib.cpu, vram.va, gtt.va, vram.size + 1);
	CHECK(done_within(submit(0, 7), AMDGPU_TIMEOUT_INFINITE));
	CHECK(counter("gpu_faults") == faults + 1);
	if (!skip_on_real("page tables cannot be told to let a byte pass")) {
		set_parameter("strict_last_byte", "0");
		copy_packet(ib.cpu, vram.va, gtt.va, vram.size);
		CHECK(done_within(submit(0, 7), AMDGPU_TIMEOUT_INFINITE));
		CHECK(counter("gpu_faults") == faults + 1);
		set_parameter("strict_last_byte", "1");
	}
	drop(&vram);
	drop(&gtt);
}

/* Has the kernel's caches shrunk: of slabs and of others that have a shrinker. */
static void shrink(void)
{
	int file = open("/proc/sys/vm/drop_caches", O_WRONLY);

	MUST(file >= 0);
	CHECK(write(file, "2", 1) == 1);
	close(file);
}

static int all_zero(const struct buffer *b)
{
	const uint64_t *w = b->cpu;

	for (uint64_t i = 0; i < b->size / 8; i++)
		if (w[i])
			return 0;
	return 1;
}

/* What a BO held is not seen by the next that gets its pages. */
static void test_wiped(void)
{
	const uint64_t size = 64 * MIB;
	struct buffer vram = make(size, AMDGPU_GEM_DOMAIN_VRAM);
	long long before;
	int i;

	for (i = 0; i < 2; i++) {
		fill(vram.cpu, size, 3);
		drop(&vram);
		vram = make(size, AMDGPU_GEM_DOMAIN_VRAM);
		CHECK(all_zero(&vram));
	}
	drop(&vram);
	if (skip_on_real("VRAM is no memory of the machine there"))
		return;
	/* The machine takes them back; a BO gets others then. */
	before = counter("pages_returned");
	shrink();
	CHECK(counter("pages_returned") - before >= (long long)(size / 4096));
	vram = make(size, AMDGPU_GEM_DOMAIN_VRAM);
	CHECK(all_zero(&vram));
	drop(&vram);
}

static void test_time_model(void)
{
	struct buffer vram = make(4 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	struct buffer gtt = make(4 * MIB, AMDGPU_GEM_DOMAIN_GTT);
	uint64_t seq[4], start, ns;
	int i;

	set_parameter("dma_mbps", "20"); /* 4 MiB take 209.7 ms */
	fill(gtt.cpu, gtt.size, 8);
	start = now_ns();
	for (i = 0; i < 4; i++)
		seq[i] = copy(i, vram.va, gtt.va, 4 * MIB);
	CHECK(counter("cs_max_in_flight") >= 4 || skip_on_real("cs_max_in_flight is a counter of kfdsim"));
	CHECK(!done_within(seq[0], 0));
	CHECK(!done_within(seq[3], 50 * 1000000ull));
	/* What was not waited for is not there. */
	CHECK(memcmp(vram.cpu, gtt.cpu, MIB) || skip_on_real("bytes come one after the other there"));
	CHECK(done_within(seq[0], AMDGPU_TIMEOUT_INFINITE));
	CHECK(!memcmp(vram.cpu, gtt.cpu, MIB));
	ns = now_ns() - start;
	CHECK(ns >= 209 * 1000000ull && ns < 400 * 1000000ull);
	CHECK(!done_within(seq[3], 0));
	CHECK(done_within(seq[3], AMDGPU_TIMEOUT_INFINITE));
	ns = now_ns() - start;
	CHECK(ns >= 838 * 1000000ull && ns < 1200 * 1000000ull);
	printf("simulated: 16 MiB in four submissions at 20 MB/s: %llu ms (839 expected)\n",
	       (unsigned long long)ns / 1000000);
	set_parameter("dma_mbps", "0");
	drop(&vram);
	drop(&gtt);
}

static void test_userptr(void)
{
	struct buffer vram = make(MIB, AMDGPU_GEM_DOMAIN_VRAM), user = { .size = MIB };
	void *mem = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(mem != MAP_FAILED);
	fill(mem, MIB, 7);
	MUST(!amdgpu_create_bo_from_user_mem(dev, mem, MIB, &user.bo));
	map_va(&user);
	CHECK(done_within(copy(0, vram.va, user.va, MIB), AMDGPU_TIMEOUT_INFINITE));
	CHECK(!memcmp(vram.cpu, mem, MIB));
	fill(vram.cpu, MIB, 9);
	CHECK(done_within(copy(0, user.va, vram.va, MIB), AMDGPU_TIMEOUT_INFINITE));
	CHECK(!memcmp(vram.cpu, mem, MIB));
	drop(&user);
	drop(&vram);

	struct drm_amdgpu_gem_userptr arg = { .addr = (uintptr_t)mem + 1, .size = 4096,
					      .flags = AMDGPU_GEM_USERPTR_REGISTER };
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_USERPTR, &arg), -EINVAL);
	arg.addr--;
	arg.flags = 0;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_USERPTR, &arg), -EACCES);
	munmap(mem, MIB);
	arg.flags = AMDGPU_GEM_USERPTR_REGISTER | AMDGPU_GEM_USERPTR_VALIDATE;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_USERPTR, &arg), -EFAULT);
}

static void test_sharing(void)
{
	struct drm_amdgpu_gem_create_in info = {};
	struct drm_amdgpu_gem_op op = { .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
					.value = (uintptr_t)&info };
	union drm_amdgpu_gem_create c = { .in = { .bo_size = 64 * KIB,
						  .domains = AMDGPU_GEM_DOMAIN_VRAM } };
	union drm_amdgpu_gem_mmap m = {};
	struct stat a, b;
	uint32_t handle, same, foreign;
	int dma1, dma2, other;
	uint32_t *p, *q;

	MUST(!try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &c));
	handle = c.out.handle;
	MUST(!drmPrimeHandleToFD(fd, handle, DRM_RDWR | DRM_CLOEXEC, &dma1));
	MUST(!drmPrimeHandleToFD(fd, handle, DRM_RDWR | DRM_CLOEXEC, &dma2));
	CHECK(!fstat(dma1, &a) && !fstat(dma2, &b) && a.st_ino == b.st_ino);
	CHECK(lseek(dma1, 0, SEEK_END) == 64 * KIB);
	CHECK(!drmPrimeFDToHandle(fd, dma1, &same) && same == handle);

	p = mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, dma1, 0);
	MUST(p != MAP_FAILED);
	p[100] = 0x600d;
	other = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	MUST(other >= 0);

	/* The fake offset is for the files that have a handle only. */
	m.in.handle = handle;
	MUST(!try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &m));
	q = mmap(NULL, 64 * KIB, PROT_READ, MAP_SHARED, other, m.out.addr_ptr);
	CHECK(q == MAP_FAILED && errno == EACCES);
	CHECK(!drmPrimeFDToHandle(other, dma1, &foreign));
	q = mmap(NULL, 64 * KIB, PROT_READ, MAP_SHARED, other, m.out.addr_ptr);
	CHECK(q != MAP_FAILED && q[100] == 0x600d);
	munmap(q, 64 * KIB);
	q = mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, m.out.addr_ptr);
	CHECK(q == MAP_FAILED && errno == EINVAL);

	/* The dma-buf keeps its identity while any handle lives. */
	MUST(!drmCloseBufferHandle(fd, handle));
	op.handle = handle;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_OP, &op), -ENOENT);
	close(dma2);
	MUST(!drmPrimeHandleToFD(other, foreign, DRM_RDWR | DRM_CLOEXEC, &dma2));
	CHECK(!fstat(dma2, &b) && a.st_ino == b.st_ino);
	op.handle = foreign;
	CHECK(!try_ioctl(other, DRM_IOCTL_AMDGPU_GEM_OP, &op));
	CHECK(info.bo_size == 64 * KIB && info.domains == AMDGPU_GEM_DOMAIN_VRAM);

	/* /proc/PID/mem reaches the mapping, as ptrace would. */
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	uint32_t word = 0;

	CHECK(pread(mem, &word, 4, (uintptr_t)&p[100]) == 4 && word == 0x600d);
	close(mem);
	munmap(p, 64 * KIB);
	close(dma1);
	close(dma2);
	close(other);
}

static void test_errors(void)
{
	union drm_amdgpu_ctx c = { .in = { .op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = 77 } };
	struct drm_amdgpu_gem_va va = { .operation = AMDGPU_VA_OP_MAP, .flags = MAP_FLAGS,
					.va_address = MIB, .map_size = 8192 };
	union drm_amdgpu_gem_create g = { .in = { .bo_size = 8192,
						  .domains = AMDGPU_GEM_DOMAIN_GTT } };
	struct { uint64_t entries; uint32_t n, pad; } list = {};

	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), -EINVAL);
	c.in.op = AMDGPU_CTX_OP_QUERY_STATE2;
	c.in.ctx_id = 77;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), -EINVAL);
	/* GEM_LIST_HANDLES and GEM_CHANGE_HANDLE came after 6.12. */
	IS(try_ioctl(fd, DRM_IOWR(DRM_COMMAND_BASE + 0x19, list), &list), -EINVAL);
	IS(try_ioctl(fd, DRM_IOWR(0xd2, list), &list), -EINVAL);

	MUST(!try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &g));
	va.handle = g.out.handle;
	CHECK(!try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va));
	va.va_address += 4096;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va), -EINVAL);
	va.map_size = 12288;
	va.va_address = 4 * MIB;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va), -EINVAL);
	va.map_size = 8192;
	va.handle = 999;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va), -ENOENT);
	va.handle = g.out.handle;
	va.operation = AMDGPU_VA_OP_UNMAP;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va), -ENOENT);
	/* Clearing half a mapping leaves the other half. */
	va.operation = AMDGPU_VA_OP_CLEAR;
	va.va_address = MIB;
	va.map_size = 4096;
	CHECK(!try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va));
	va.operation = AMDGPU_VA_OP_UNMAP;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va), -ENOENT);
	va.va_address += 4096;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va), 0);
	CHECK(!drmCloseBufferHandle(fd, va.handle));
}

/* The first GPU has no more VRAM than this; 0: all it has. */
static void set_vram(uint64_t bytes)
{
	FILE *topology = fopen("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "r");
	FILE *rules = fopen("/sys/kernel/debug/simgpu/faults", "w");
	unsigned int id;

	MUST(topology && fscanf(topology, "%u", &id) == 1 && !fclose(topology));
	MUST(rules);
	if (bytes)
		fprintf(rules, "vram %u %llu", id, (unsigned long long)bytes);
	else
		fprintf(rules, "clear");
	MUST(!fclose(rules));
}

/* Where VRAM is full a BO is in system memory, and may be for ever. */
static void test_capacity(void)
{
	struct amdgpu_bo_alloc_request req = { .phys_alignment = 4096,
					       .preferred_heap = AMDGPU_GEM_DOMAIN_VRAM };
	struct drm_amdgpu_memory_info info = {};
	struct amdgpu_bo_info got = {};
	amdgpu_bo_handle bo;

	if (skip_on_real("what the driver itself has in VRAM goes to system memory then, and counts as somebody's"))
		return;
	set_vram(64 * MIB);
	MUST(!amdgpu_query_info(dev, AMDGPU_INFO_MEMORY, sizeof(info), &info));
	req.alloc_size = 64 * MIB - info.vram.heap_usage + 4096;
	MUST(!amdgpu_bo_alloc(dev, &req, &bo));
	CHECK(!amdgpu_bo_query_info(bo, &got));
	CHECK(got.preferred_heap == (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT));
	CHECK(counter("gtt_bytes") >= (long long)req.alloc_size);
	CHECK(!amdgpu_bo_free(bo));
	set_vram(0);
}

int main(void)
{
	struct amdgpu_gpu_info gpu;

	open_device();
	CHECK(!amdgpu_query_gpu_info(dev, &gpu));
	test_copies();
	test_wiped();
	test_time_model();
	test_userptr();
	test_sharing();
	test_errors();
	test_capacity();
	close_device();
	return report("drm_test");
}
