// SPDX-License-Identifier: GPL-2.0 OR MIT
/* /dev/kfd without ROCm: memory, access rights, sharing, events, queues, process life. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/wait.h>

#include "child.h"
#include "kfd/queue_buffers.h"

static void test_memory(const struct gpu *g)
{
	struct memory a, b;
	uint64_t before = available(g);

	IS(allocate(g, &a, VA, 0, VRAM | WRITABLE, 0), -EINVAL);
	IS(allocate(g, &a, VA, MIB, WRITABLE, 0), -EINVAL);
	IS(allocate(g, &a, VA, MIB, USERPTR, 0), -EINVAL);
	IS(allocate(g, &a, VA, MIB, USERPTR | WRITABLE, 0x10000), -EFAULT);
	IS(allocate(g, &a, VA, 4096, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, 0), -EINVAL);
	IS(allocate(g, &a, VA, 8192, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP, 0), -EINVAL);
	IS(allocate(g, &a, VA, before + 4 * MIB, VRAM | WRITABLE, 0), -ENOMEM);
	CHECK(available(g) == before);

	/* What is left is told in units of 2 MiB. */
	IS(allocate(g, &a, VA, 2 * MIB, VRAM | WRITABLE, 0), 0);
	CHECK(available(g) == before - 2 * MIB);
	IS(map_gpu(g, &a), 0);
	IS(map_gpu(g, &a), 0);
	IS(allocate(g, &b, VA + 4096, MIB, GTT | WRITABLE, 0), 0);
	CHECK(available(g) == before - 2 * MIB);
	IS(map_gpu(g, &b), -EINVAL);
	IS(free_gpu(g, &b), 0);
	IS(free_gpu(g, &a), -EBUSY);
	IS(unmap_gpu(g, &a), 0);
	IS(free_gpu(g, &a), 0);
	IS(free_gpu(g, &a), -EINVAL);
	CHECK(available(g) == before);
}

/* Only the struct file of the VM may map the BO, as DRM enforces. */
static void test_access(const struct gpu *g)
{
	struct memory m = make(g, VA, MIB, VRAM);
	int other = open(RENDER_NODE, O_RDWR | O_CLOEXEC), again = dup(g->render);
	void *p = mmap(NULL, MIB, PROT_READ, MAP_SHARED, other, m.offset);

	CHECK(p == MAP_FAILED && errno == EACCES);
	p = mmap(NULL, MIB, PROT_READ, MAP_SHARED, again, m.offset);
	CHECK(p != MAP_FAILED);
	munmap(p, MIB);
	IS(acquire(g, again), 0);
	IS(acquire(g, other), -EBUSY);
	close(other);
	close(again);
	munmap(m.cpu, MIB);
	IS(unmap_gpu(g, &m), 0);
	IS(free_gpu(g, &m), 0);
	p = mmap(NULL, MIB, PROT_READ, MAP_SHARED, g->render, m.offset);
	CHECK(p == MAP_FAILED);
}

static int export_fd(const struct gpu *g, const struct memory *m, ino_t *inode)
{
	struct kfd_ioctl_export_dmabuf_args a = { .handle = m->handle, .flags = O_CLOEXEC };
	struct stat st;

	MUST(!try_ioctl(g->kfd, AMDKFD_IOC_EXPORT_DMABUF, &a));
	MUST(!fstat(a.dmabuf_fd, &st));
	*inode = st.st_ino;
	return a.dmabuf_fd;
}

static void test_sharing(const struct gpu *g)
{
	struct memory m = make(g, VA, 2 * MIB, VRAM), copy, both;
	struct kfd_ioctl_import_dmabuf_args in = { .va_addr = VA + 16 * MIB, .gpu_id = g->id };
	struct kfd_ioctl_get_dmabuf_info_args info = {};
	uint64_t before = available(g);
	ino_t first, second;
	int fd = export_fd(g, &m, &first), fd2;

	/* Of two kinds the first counts. */
	IS(allocate(g, &both, VA + 32 * MIB, MIB, VRAM | GTT, 0), 0);
	fd2 = export_fd(g, &both, &second);
	CHECK(first != second);
	info.dmabuf_fd = fd2;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), 0);
	CHECK(info.flags == VRAM);
	close(fd2);
	IS(free_gpu(g, &both), 0);

	fd2 = export_fd(g, &m, &second);
	CHECK(first == second);
	close(fd2);
	info.dmabuf_fd = fd;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), 0);
	CHECK(info.size == 2 * MIB && info.gpu_id == g->id && info.flags == VRAM);

	in.dmabuf_fd = fd;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_IMPORT_DMABUF, &in), 0);
	CHECK(available(g) == before);
	copy = (struct memory){ .handle = in.handle, .va = in.va_addr, .size = 2 * MIB };
	IS(map_gpu(g, &copy), 0);
	/* The first handle goes; the buffer and its identity stay with the import. */
	munmap(m.cpu, m.size);
	IS(unmap_gpu(g, &m), 0);
	IS(free_gpu(g, &m), 0);
	fd2 = export_fd(g, &copy, &second);
	CHECK(first == second);
	close(fd2);
	IS(unmap_gpu(g, &copy), 0);
	IS(free_gpu(g, &copy), 0);
	CHECK(available(g) == before);
	/* Only the descriptor holds it now; importing brings the same dma-buf back. */
	in.handle = 0;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_IMPORT_DMABUF, &in), 0);
	copy.handle = in.handle;
	fd2 = export_fd(g, &copy, &second);
	CHECK(first == second);
	close(fd2);
	IS(free_gpu(g, &copy), 0);
	close(fd);
	CHECK(available(g) == before + 2 * MIB);
}

static void test_events(const struct gpu *g, struct memory *page)
{
	uint32_t plain, automatic, memory;
	int status;

	IS(create_event(g, KFD_IOC_EVENT_SIGNAL, 0, page->handle, &plain), 0);
	CHECK(plain == 1);
	IS(create_event(g, KFD_IOC_EVENT_SIGNAL, 0, page->handle, &automatic), -EINVAL);
	IS(create_event(g, KFD_IOC_EVENT_SIGNAL, 1, 0, &automatic), 0);
	IS(create_event(g, KFD_IOC_EVENT_MEMORY, 0, 0, &memory), 0);
	CHECK(automatic == 2 && memory == 0x40000000);
	IS(free_gpu(g, page), -EPERM);
	IS(set_event(g, memory), -EINVAL);
	IS(set_event(g, 99), -EINVAL);
	IS(wait_event(g, 99, 0), -EINVAL);
	IS(wait_event(g, plain, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	IS(set_event(g, plain), 0);
	IS(wait_event(g, plain, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(g, plain, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(set_event(g, automatic), 0);
	IS(wait_event(g, automatic, 20), KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(g, automatic, 20), KFD_IOC_WAIT_RESULT_TIMEOUT);
	/* A child shares the file but is another process. */
	if (!fork())
		_exit(set_event(g, plain) == -EBADF ? 0 : 1);
	wait(&status);
	CHECK(status == 0);
}

static void test_queue(const struct gpu *g, struct memory *page)
{
	struct memory data = make(g, VA + MIB, MIB, VRAM), ring;
	struct kfd_ioctl_destroy_queue_args destroy = {};
	struct sdma_queue q, second;
	void *doorbell;
	FILE *rate;
	uint64_t ns;

	ring = make(g, VA, RING_BYTES, GTT);
	IS(create_queue(g, &q, VA), -EINVAL);
	make(g, VA + RING_BYTES, PAGE_BYTES, GTT);
	IS(create_queue(g, &q, VA + 512 * MIB), -EINVAL);
	IS(create_queue(g, &q, VA), 0);
	CHECK(q.id == 0);
	doorbell = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, g->kfd,
			q.doorbell_offset & ~8191ull);
	CHECK(doorbell != MAP_FAILED);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, g->kfd, q.doorbell_offset & ~8191ull) ==
	      MAP_FAILED && errno == EINVAL);
	strcpy(data.cpu, "moved by a user queue");
	put_wait(&q, q.words_va, 5);
	put_copy(&q, data.va + MIB / 2, data.va, 4096);
	put_fence(&q, page->va + 8, 1);
	put_trap(&q, 1);
	CHECK(!drained(&q, 50));
	q.words[0] = 5;
	CHECK(drained(&q, 2000));
	IS(wait_event(g, 1, 2000), KFD_IOC_WAIT_RESULT_COMPLETE);
	CHECK(!strcmp((char *)data.cpu + MIB / 2, "moved by a user queue"));

	/* Copies in parts: the second begins at its own beginning. */
	memset(data.cpu, 0x42, MIB / 2);
	put_copy(&q, data.va, data.va, MIB / 2);
	put_copy(&q, data.va + MIB / 2, data.va, MIB / 2);
	CHECK(drained(&q, 2000));
	CHECK(!memcmp(data.cpu, (char *)data.cpu + MIB / 2, MIB / 2));

	/* 512 KiB at 5 MB/s take 105 ms; what follows the copy waits for it. */
	rate = fopen("/sys/module/amdgpu/parameters/dma_mbps", "w");
	MUST(rate && fprintf(rate, "5") && !fclose(rate));
	ns = now_ns();
	put_copy(&q, data.va + MIB / 2, data.va, MIB / 2);
	put_fence(&q, q.words_va + 8, 7);
	CHECK(drained(&q, 5000) && q.words[1] == 7);
	ns = now_ns() - ns;
	CHECK(ns > 104 * 1000000ull && ns < 300 * 1000000ull);
	rate = fopen("/sys/module/amdgpu/parameters/dma_mbps", "w");
	MUST(rate && fprintf(rate, "0") && !fclose(rate));

	IS(create_queue(g, &second, VA), 0);
	CHECK(second.id == 1 && second.doorbell_offset != q.doorbell_offset);
	destroy.queue_id = second.id;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_DESTROY_QUEUE, &destroy), 0);
	IS(try_ioctl(g->kfd, AMDKFD_IOC_DESTROY_QUEUE, &destroy), -EINVAL);
	test_queue_buffers(g, &ring);
	/* Left behind on purpose: queue 0, its memory, its doorbell mapping. */
}

/* The first life of a process ends with its mm: after exec the old file is of no use. */
static void test_unbound(void)
{
	struct gpu g = open_gpu();
	struct memory m;

	IS(allocate(&g, &m, VA, 4096, VRAM | WRITABLE, 0), -ENODEV);
	IS(allocate(&g, &m, VA, 0, VRAM | WRITABLE, 0), -EINVAL);
	IS(acquire(&g, g.kfd), -EINVAL);
	IS(try_ioctl(g.kfd, _IOWR('K', 0x70, int), &m), -ENOTTY);
	close(g.kfd);
	close(g.render);
}

/* A runtime is enabled once, and not when there are queues. */
static int runtime(const struct gpu *g, uint32_t mode)
{
	struct kfd_ioctl_runtime_enable_args a = { .mode_mask = mode };

	return try_ioctl(g->kfd, AMDKFD_IOC_RUNTIME_ENABLE, &a);
}

static void test_runtime(const struct gpu *g)
{
	IS(runtime(g, 1), 0);
	IS(runtime(g, 1), -EBUSY);
	IS(runtime(g, 0), 0);
	IS(runtime(g, 0), 0);
	IS(runtime(g, 1), 0);
}

static void child(void)
{
	struct gpu g;
	struct memory page;

	test_unbound();
	g = open_gpu();
	IS(acquire(&g, g.render), 0);
	test_runtime(&g);
	test_memory(&g);
	test_access(&g);
	test_sharing(&g);
	page = make(&g, VA + 256 * MIB, 32768, GTT);
	test_events(&g, &page);
	test_queue(&g, &page);
	IS(runtime(&g, 0), 0);
	IS(runtime(&g, 1), -EEXIST);
	/* A grandchild that outlives us holds the files of a dead process. */
	if (!fork()) {
		usleep(300000);
		_exit(0);
	}
}

int main(void)
{
	in_child("kfd_test, a life", child);
	return report("kfd_test");
}
