// SPDX-License-Identifier: GPL-2.0 OR MIT
/* One buffer in several places: files, processes, KFD and GEM, two GPUs, another driver. */
#define _GNU_SOURCE
#include <linux/dma-heap.h>
#include <signal.h>
#include <sys/wait.h>

#include "child.h"
#include "drm/gem.h"
#include "memory/kfd_dmabuf.h"

static int importer(int dmabuf, ino_t want)
{
	int fd = open_node(), again;
	uint32_t h, same, *p;

	failures = 0;
	MUST(!drmPrimeFDToHandle(fd, dmabuf, &h));
	MUST(!drmPrimeFDToHandle(fd, dmabuf, &same));
	CHECK(h == 1 && same == h);
	again = share(fd, h);
	CHECK(inode(again) == want);
	p = map_dmabuf(again, 64 * KIB);
	CHECK(p[1] == 0xa);
	p[2] = 0xb;
	/* The parent closes what it has; only this process' handle keeps the identity then. */
	munmap(p, 64 * KIB);
	close(again);
	close(dmabuf);
	usleep(200000);
	again = share(fd, h);
	CHECK(inode(again) == want);
	p = map_dmabuf(again, 64 * KIB);
	CHECK(p[2] == 0xb);
	exit(failures);
}

static void test_processes(void)
{
	int fd = open_node(), dmabuf, status;
	uint32_t h = create(fd, 64 * KIB, AMDGPU_GEM_DOMAIN_VRAM, 0), *p;
	uint32_t fixed = create(fd, 4096, AMDGPU_GEM_DOMAIN_VRAM,
				AMDGPU_GEM_CREATE_VM_ALWAYS_VALID);

	CHECK(drmPrimeHandleToFD(fd, fixed, DRM_RDWR, &dmabuf) < 0 && errno == EPERM);
	dmabuf = share(fd, h);
	p = map_dmabuf(dmabuf, 64 * KIB);
	p[1] = 0xa;
	if (!fork())
		importer(dmabuf, inode(dmabuf));
	usleep(100000);
	CHECK(p[2] == 0xb);
	munmap(p, 64 * KIB);
	close(dmabuf);
	MUST(!drmCloseBufferHandle(fd, h));
	wait(&status);
	CHECK(status == 0);
	close(fd);
}

static void test_dmabuf_info(const struct gpu *g)
{
	struct drm_amdgpu_gem_metadata meta = { .op = AMDGPU_GEM_METADATA_OP_SET_METADATA };
	struct kfd_ioctl_get_dmabuf_info_args info = {};
	uint32_t h = create(g->render, 64 * KIB, AMDGPU_GEM_DOMAIN_VRAM,
			    AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED);
	uint32_t cpu = create(g->render, 4096, AMDGPU_GEM_DOMAIN_CPU, 0);
	int dmabuf = share(g->render, h), plain = share(g->render, cpu);
	uint32_t *p;
	char out[16] = "";

	meta.handle = h;
	meta.data.data_size_bytes = 12;
	memcpy(meta.data.data, "hello world", 12);
	IS(try_ioctl(g->render, DRM_IOCTL_AMDGPU_GEM_METADATA, &meta), 0);
	info.dmabuf_fd = dmabuf;
	/* Who has no room for them is told how many they are. */
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), -EINVAL);
	CHECK(info.metadata_size == 12);
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), 0);
	CHECK(info.size == 64 * KIB && info.gpu_id == g->id && info.metadata_size == 12);
	/* What was asked for is a hint; that a CPU has been there is told. */
	CHECK(info.flags == VRAM);
	p = map_dmabuf(dmabuf, 64 * KIB);
	p[0] = 1;
	munmap(p, 64 * KIB);
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), 0);
	CHECK(info.flags == (VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC));
	info.metadata_ptr = (uintptr_t)out;
	info.metadata_size = 11;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), -EINVAL);
	info.metadata_size = sizeof(out);
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), 0);
	CHECK(info.metadata_size == 12 && !strcmp(out, "hello world"));
	info.metadata_ptr = 8;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), -EFAULT);
	info.dmabuf_fd = plain;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), -EINVAL);
	info.dmabuf_fd = g->render;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), -EINVAL);
	info.dmabuf_fd = -1;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), -EBADF);
	close(plain);
	close(dmabuf);
	CHECK(!drmCloseBufferHandle(g->render, h) && !drmCloseBufferHandle(g->render, cpu));
}

/* The same buffer with a KFD handle and a GEM handle of the very file that is the VM. */
static void test_kfd_and_gem(const struct gpu *g)
{
	struct memory m = make(g, VA, 64 * KIB, VRAM), second;
	int dmabuf = export_kfd(g, m.handle), again;
	ino_t id = inode(dmabuf);
	uint32_t h, same, *p;

	MUST(dmabuf >= 0);
	IS(export_kfd(g, m.handle + 1), -EINVAL);
	IS(export_kfd(g, m.handle + (1ull << 32)), -EINVAL);
	IS(import_kfd(g, &second, dmabuf, 1, VA + MIB, 64 * KIB), -EINVAL);
	IS(import_kfd(g, &second, -1, g->id, VA + MIB, 64 * KIB), -EBADF);
	IS(import_kfd(g, &second, g->render, g->id, VA + MIB, 64 * KIB), -EINVAL);
	*(uint32_t *)m.cpu = 0xfeed;
	MUST(!drmPrimeFDToHandle(g->render, dmabuf, &h));
	MUST(!drmPrimeFDToHandle(g->render, dmabuf, &same));
	CHECK(h == 1 && same == h);
	/* Closing the GEM handle leaves KFD's mapping alone. */
	MUST(!drmCloseBufferHandle(g->render, h));
	IS(unmap_gpu(g, &m), 0);
	IS(map_gpu(g, &m), 0);
	MUST(!drmPrimeFDToHandle(g->render, dmabuf, &h));
	munmap(m.cpu, m.size);
	IS(unmap_gpu(g, &m), 0);
	IS(free_gpu(g, &m), 0);
	close(dmabuf);
	/* KFD's handle is gone, the GEM handle has content and identity. */
	again = share(g->render, h);
	CHECK(inode(again) == id);
	p = map_dmabuf(again, 64 * KIB);
	CHECK(p[0] == 0xfeed);
	IS(import_kfd(g, &second, again, g->id, VA + MIB, 64 * KIB), 0);
	close(again);
	munmap(p, 64 * KIB);
	MUST(!drmCloseBufferHandle(g->render, h));
	again = export_kfd(g, second.handle);
	CHECK(inode(again) == id);
	close(again);
	IS(free_gpu(g, &second), 0);
}

/* How the only handle, of pages of another driver, is listed. */
static void test_foreign_entry(int file)
{
	struct sim_gem_handle_entry e[1] = {};
	uint32_t n = 1;

	if (skip_on_real("GEM_LIST_HANDLES came after 6.12"))
		return;
	set_parameter("gem_list_handles", "working");
	IS(list_handles(file, e, &n), 0);
	CHECK(n == 1 && e[0].flags == SIM_GEM_HANDLE_IMPORT && e[0].size == 64 * KIB);
	CHECK(e[0].preferred_domains == AMDGPU_GEM_DOMAIN_GTT);
	set_parameter("gem_list_handles", "absent");
}

/* Pages that another driver exports, here the system heap. */
static void test_foreign(const struct gpu *g)
{
	struct dma_heap_allocation_data a = { .len = 64 * KIB, .fd_flags = O_RDWR | O_CLOEXEC };
	struct drm_amdgpu_gem_op place = { .op = AMDGPU_GEM_OP_SET_PLACEMENT,
					   .value = AMDGPU_GEM_DOMAIN_VRAM };
	int heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC), file = open_node(), again;
	struct kfd_ioctl_get_dmabuf_info_args info = {};
	struct memory to, from;
	struct sdma_queue q;
	uint32_t h, *p;

	MUST(heap >= 0 && !try_ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &a));
	MUST(!drmPrimeFDToHandle(file, a.fd, &h));
	again = share(file, h);
	CHECK(inode(again) == inode(a.fd));
	close(again);
	test_foreign_entry(file);
	place.handle = h;
	IS(try_ioctl(file, DRM_IOCTL_AMDGPU_GEM_OP, &place), -EINVAL);
	info.dmabuf_fd = a.fd;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), -EINVAL);

	p = map_dmabuf(a.fd, 64 * KIB);
	for (uint32_t i = 0; i < 64 * KIB / 4; i++)
		p[i] = i * 2654435761u;
	make_ring(g, VA);
	to = make(g, VA + 2 * MIB, 64 * KIB, VRAM);
	IS(import_kfd(g, &from, a.fd, g->id, VA + MIB, 64 * KIB), 0);
	IS(map_gpu(g, &from), 0);
	IS(create_queue(g, &q, VA), 0);
	put_copy(&q, to.va, from.va, 64 * KIB);
	CHECK(drained(&q, 2000) && !memcmp(to.cpu, p, 64 * KIB));
	((uint32_t *)to.cpu)[5] = 1;
	put_copy(&q, from.va, to.va, 64 * KIB);
	CHECK(drained(&q, 2000) && p[5] == 1);
	close(heap);
	close(file);
	close(a.fd);
	/* The rest is left to the end of the process on purpose. */
}

/* A buffer of the first GPU on the second one: same pages, same identity, its own handle. */
static void test_gpus(const struct gpu *g)
{
	int fd = open_node(), second = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);
	union drm_amdgpu_gem_mmap m = {};
	struct kfd_ioctl_get_dmabuf_info_args info = {};
	struct gpu other = *g;
	struct memory from, to;
	struct sdma_queue q;
	uint32_t h = create(fd, 64 * KIB, AMDGPU_GEM_DOMAIN_VRAM, 0), theirs, same, n = 1, *p;
	struct sim_gem_handle_entry e[1] = {};
	int dmabuf = share(fd, h), again, status;
	ino_t id = inode(dmabuf);

	MUST(second >= 0);
	other.render = second;
	other.id = topology_gpu_id(2);
	p = map_dmabuf(dmabuf, 64 * KIB);
	for (uint32_t i = 0; i < 64 * KIB / 4; i++)
		p[i] = i * 2654435761u;
	create(second, 4096, AMDGPU_GEM_DOMAIN_GTT, 0);
	MUST(!drmPrimeFDToHandle(second, dmabuf, &theirs));
	MUST(!drmPrimeFDToHandle(second, dmabuf, &same));
	CHECK(theirs == 2 && same == theirs);
	CHECK(!drmCloseBufferHandle(second, 1));
	again = share(second, theirs);
	CHECK(inode(again) == id);
	/* Back home it is the first GPU's own buffer. */
	MUST(!drmPrimeFDToHandle(fd, again, &same));
	CHECK(same == h);
	close(again);
	set_parameter("gem_list_handles", "working");
	IS(list_handles(second, e, &n), 0);
	CHECK(n == 1 && e[0].flags == SIM_GEM_HANDLE_IMPORT);
	set_parameter("gem_list_handles", "absent");
	m.in.handle = theirs;
	IS(try_ioctl(second, DRM_IOCTL_AMDGPU_GEM_MMAP, &m), 0);
	if (!fork()) {
		volatile uint32_t *bad = mmap(NULL, 64 * KIB, PROT_READ, MAP_SHARED, second,
					      m.out.addr_ptr);

		_exit(bad == MAP_FAILED ? 1 : (int)bad[0]);
	}
	wait(&status);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	info.dmabuf_fd = dmabuf;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), 0);
	CHECK(info.gpu_id == g->id && info.flags == (VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC));

	IS(acquire(&other, second), 0);
	make_ring(&other, VA + 32 * MIB);
	to = make(&other, VA + 34 * MIB, 64 * KIB, VRAM);
	IS(import_kfd(&other, &from, dmabuf, other.id, VA + 33 * MIB, 64 * KIB), 0);
	IS(map_gpu(&other, &from), 0);
	IS(create_queue(&other, &q, VA + 32 * MIB), 0);
	put_copy(&q, to.va, from.va, 64 * KIB);
	CHECK(drained(&q, 2000) && !memcmp(to.cpu, p, 64 * KIB));
	again = export_kfd(&other, from.handle);
	CHECK(again >= 0 && inode(again) == id);
	/* The exporter goes first; its pages stay as long as somebody imports them. */
	MUST(!drmCloseBufferHandle(fd, h));
	munmap(p, 64 * KIB);
	close(again);
	close(dmabuf);
	close(fd);
	memset(to.cpu, 0, 64 * KIB);
	put_copy(&q, to.va, from.va, 64 * KIB);
	CHECK(drained(&q, 2000) && ((uint32_t *)to.cpu)[3] == (uint32_t)(3 * 2654435761u));
	close(second);
}

static void child(void)
{
	struct gpu g = open_gpu();

	IS(acquire(&g, g.render), 0);
	test_dmabuf_info(&g);
	test_kfd_and_gem(&g);
	if (topology_gpu_id(2))
		test_gpus(&g);
	else
		printf("share_test: there is one GPU only, nothing is shared between GPUs\n");
	test_foreign(&g);
}

int main(void)
{
	in_child("share_test, processes", test_processes);
	in_child("share_test, KFD", child);
	return report("share_test");
}
