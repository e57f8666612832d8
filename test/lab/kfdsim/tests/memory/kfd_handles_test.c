// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * GEM handles of KFD, one table for all processes of a GPU: exporter and importers of a buffer share a number that
 * nobody counts (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_import_dmabuf_fd, amdgpu_amdkfd_gpuvm_free_memory_of_gpu @
 * 6.12.117).
 */
#define _GNU_SOURCE
#include <linux/dma-heap.h>

#include "child.h"
#include "drm/gem.h"
#include "memory/kfd_dmabuf.h"

static struct gpu g;

static struct memory buffer(int i, uint64_t size)
{
	struct memory m;

	MUST(!allocate(&g, &m, VA + i * MIB, size, GTT | WRITABLE, 0));
	return m;
}

/* A buffer, exported and imported, whose handle the free of the import has deleted. */
static struct memory without_handle(int i)
{
	struct memory m = buffer(i, 4 * KIB), import;
	int dmabuf = export_kfd(&g, m.handle);

	MUST(dmabuf >= 0);
	IS(import_kfd(&g, &import, dmabuf, g.id, VA + (i + 1) * MIB, 4 * KIB), 0);
	IS(free_gpu(&g, &import), 0);
	close(dmabuf);
	return m;
}

/* Its number is that of the next buffer, which then loses its handle in its stead. */
static void test_stale_delete(void)
{
	struct memory shared = without_handle(0), victim = buffer(2, 8 * KIB), next;
	long long stale = counter("stale_handle_deletes");
	int dmabuf;

	/* What was exported once keeps its dma-buf. */
	dmabuf = export_kfd(&g, shared.handle);
	CHECK(dmabuf >= 0 && lseek(dmabuf, 0, SEEK_END) == 4 * KIB);
	close(dmabuf);
	IS(free_gpu(&g, &shared), 0);
	if (!skip_on_real("stale_handle_deletes is a counter of kfdsim"))
		CHECK(counter("stale_handle_deletes") == stale + 1);
	IS(export_kfd(&g, victim.handle), -ENOENT);
	/* And then it is the dma-buf of the one that has the number by now. */
	next = buffer(3, 16 * KIB);
	dmabuf = export_kfd(&g, victim.handle);
	CHECK(dmabuf >= 0 && lseek(dmabuf, 0, SEEK_END) == 16 * KIB);
	close(dmabuf);
	/* It has been found once: it stays so. */
	IS(free_gpu(&g, &next), 0);
	dmabuf = export_kfd(&g, victim.handle);
	CHECK(dmabuf >= 0 && lseek(dmabuf, 0, SEEK_END) == 16 * KIB);
	close(dmabuf);
	IS(free_gpu(&g, &victim), 0);
}

/* A number that nobody has is deleted without harm. */
static void test_vacant(void)
{
	struct memory shared = without_handle(0), later;
	long long stale = counter("stale_handle_deletes");

	IS(free_gpu(&g, &shared), 0);
	CHECK(counter("stale_handle_deletes") == stale);
	later = buffer(2, 4 * KIB);
	CHECK(close(export_kfd(&g, later.handle)) == 0);
	IS(free_gpu(&g, &later), 0);
}

/* Pages of another driver: the second import finds the BO of the first, and its handle. */
static void test_foreign(void)
{
	struct dma_heap_allocation_data a = { .len = 64 * KIB, .fd_flags = O_RDWR | O_CLOEXEC };
	int heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
	long long bos = counter("bos");
	struct memory first, second;

	MUST(heap >= 0 && !try_ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &a));
	IS(import_kfd(&g, &first, a.fd, g.id, VA, 64 * KIB), 0);
	IS(import_kfd(&g, &second, a.fd, g.id, VA + MIB, 64 * KIB), 0);
	CHECK(counter("bos") == bos + 1);
	IS(free_gpu(&g, &first), 0);
	IS(free_gpu(&g, &second), 0);
	CHECK(counter("bos") == bos);
	close(a.fd);
	close(heap);
}

static void with_vm(void (*part)(void))
{
	g = open_gpu();
	IS(acquire(&g, g.render), 0);
	part();
}

static void stale_delete(void) { with_vm(test_stale_delete); }
static void vacant(void) { with_vm(test_vacant); }
static void foreign(void) { with_vm(test_foreign); }

int main(void)
{
	in_child("kfd_handles_test, a stale number", stale_delete);
	in_child("kfd_handles_test, a vacant number", vacant);
	in_child("kfd_handles_test, another driver's pages", foreign);
	return report("kfd_handles_test");
}
