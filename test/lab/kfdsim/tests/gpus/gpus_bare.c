// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Several GPUs without ROCm: topology, VMs and memory apart, mapping and copying between
 * GPUs, queues on each, and GPUs that the device cgroup hides. Needs two GPUs or more; what
 * peers may do follows from the module's parameters.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/stat.h>
#include <xf86drm.h>

#include "child.h"
#include "gpus/devcgroup.h"
#include "gpus/gpus.h"

#define VA 0x200000000ull
#define PEER_VA 0x210000000ull
#define RING_VA 0x220000000ull
#define PAGE_VA 0x230000000ull
#define NOWHERE 0x7f0000000000ull

/* Every link has one back, of the same kind; the counts of the node's properties are right. */
static void test_links(unsigned int node, const char *kind)
{
	char file[64], key[32];
	long long to, i;

	for (i = 0;; i++) {
		snprintf(file, sizeof(file), "%s/%lld/properties", kind, i);
		to = property(node, file, "node_to");
		if (to < 0)
			break;
		CHECK(property(node, file, "node_from") == node && to != node);
		long long weight = property(node, file, "weight"), back = -1, j;

		for (j = 0; back != (long long)node; j++) {
			snprintf(file, sizeof(file), "%s/%lld/properties", kind, j);
			back = property(to, file, "node_to");
			if (!CHECK(back >= 0))
				break;
		}
		CHECK(property(to, file, "weight") == weight && weight > 0);
	}
	snprintf(key, sizeof(key), "%s_count", kind);
	IS(property(node, "properties", key), i);
}

static void test_topology(int kfd)
{
	struct kfd_process_device_apertures aps[MAX_GPUS] = {};
	struct kfd_ioctl_get_process_apertures_new_args a = {};
	unsigned int i;

	for (i = 0; node_gpu_id(i) >= 0; i++) {
		test_links(i, "io_links");
		test_links(i, "p2p_links");
	}
	IS(try_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a), 0);
	CHECK(a.num_of_nodes == nr_nodes);
	a.kfd_process_device_apertures_ptr = (uintptr_t)aps;
	a.num_of_nodes = 1;
	IS(try_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a), 0);
	CHECK(a.num_of_nodes == 1 && aps[0].gpu_id == nodes[0].gpu_id && !aps[1].gpu_id);
	/* More than the topology has nodes, those of CPUs too. */
	a.num_of_nodes = 64;
	IS(try_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a), -EINVAL);
	a.num_of_nodes = nr_nodes;
	IS(try_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a), 0);
	for (i = 0; i < nr_nodes; i++) {
		CHECK(aps[i].gpu_id == nodes[i].gpu_id);
		CHECK(nodes[i].minor == 128 + i);
	}
}

/* A GPU without a VM, the render node of another one. */
static void test_unbound(int kfd)
{
	struct gpu a = { .kfd = kfd, .render = open_render(nodes[0].minor), .id = nodes[0].gpu_id };
	struct gpu b = { .kfd = kfd, .render = open_render(nodes[1].minor), .id = nodes[1].gpu_id };
	struct kfd_ioctl_import_dmabuf_args import = { .gpu_id = b.id, .dmabuf_fd = -1 };
	struct sdma_queue q;
	struct memory m;

	IS(acquire(&a, b.render), -EINVAL);
	IS(acquire(&a, a.render), 0);
	IS(allocate(&b, &m, VA, MIB, GTT | WRITABLE, 0), -ENODEV);
	IS(try_ioctl(kfd, AMDKFD_IOC_IMPORT_DMABUF, &import), -ENODEV);
	IS(create_queue(&b, &q, VA), -ESRCH);
	IS(allocate(&a, &m, VA, MIB, GTT | WRITABLE, 0), 0);
	IS(map_gpu(&b, &m), -ENODEV);
	IS(free_gpu(&a, &m), 0);
	close(a.render);
	close(b.render);
}

static void test_memory(const struct gpu *a, const struct gpu *b)
{
	uint64_t free_a = available(a), free_b = available(b);
	struct memory m = make(a, VA, MIB, VRAM), wrong = m;
	void *p;

	/* It is told in units of 2 MiB: amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_get_available_memory @ 6.12.117. */
	CHECK(available(a) == free_a - 2 * MIB && available(b) == free_b);
	CHECK(m.handle >> 32 == a->id);
	/* The same number on another GPU is another handle. */
	wrong.handle = (uint64_t)b->id << 32 | (uint32_t)m.handle;
	IS(unmap_gpu(a, &wrong), -EINVAL);
	IS(free_gpu(a, &wrong), -EINVAL);
	p = mmap(NULL, MIB, PROT_READ, MAP_SHARED, b->render, m.offset);
	CHECK(p == MAP_FAILED);
	munmap(m.cpu, MIB);
	IS(unmap_gpu(b, &m), -EINVAL);
	IS(unmap_gpu(a, &m), 0);
	IS(free_gpu(a, &m), 0);
	CHECK(available(a) == free_a);
}

static int map_both(const struct gpu *a, const struct gpu *b, const struct memory *m,
		    uint32_t *done)
{
	uint32_t ids[] = { a->id, b->id };
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.handle = m->handle, .n_devices = 2, .device_ids_array_ptr = (uintptr_t)ids };
	int ret = try_ioctl(a->kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args);

	*done = args.n_success;
	return ret;
}

static void test_peers(const struct gpu *a, const struct gpu *b, int reach)
{
	uint32_t ids[] = { b->id, 0x10000 }, done;
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.n_devices = 2, .device_ids_array_ptr = (uintptr_t)ids };
	struct memory vram, gtt;

	IS(allocate(a, &vram, VA, MIB, VRAM | WRITABLE, 0), 0);
	IS(allocate(a, &gtt, PEER_VA, MIB, GTT | WRITABLE, 0), 0);
	IS(map_both(a, b, &vram, &done), reach ? 0 : -EINVAL);
	CHECK(done == (reach ? 2 : 1));
	IS(map_both(a, b, &gtt, &done), 0);
	CHECK(done == 2);
	IS(map_both(a, b, &gtt, &done), 0);
	args.handle = gtt.handle;
	IS(try_ioctl(a->kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args), -EINVAL);
	CHECK(args.n_success == 1);

	/* It is in use as long as one of them has it. */
	IS(unmap_gpu(a, &gtt), 0);
	IS(free_gpu(a, &gtt), -EBUSY);
	IS(unmap_gpu(b, &gtt), 0);
	IS(unmap_gpu(b, &gtt), -EINVAL);
	IS(free_gpu(a, &gtt), 0);
	IS(unmap_gpu(a, &vram), 0);
	IS(unmap_gpu(b, &vram), reach ? 0 : -EINVAL);
	IS(free_gpu(a, &vram), 0);
}

/*
 * b's engine brings what is on a, or in host memory where b cannot reach a. timed: a slow link is felt by
 * the former only.
 */
static void test_copy(const struct gpu *a, const struct gpu *b, int reach, int timed)
{
	struct memory src = make(a, VA, MIB, reach ? VRAM : GTT), dst = make(b, PEER_VA, MIB, VRAM);
	struct memory ring = make(b, RING_VA, RING_BYTES, GTT);
	struct memory pointers = make(b, RING_VA + RING_BYTES, PAGE_BYTES, GTT);
	struct kfd_ioctl_destroy_queue_args destroy = {};
	struct sdma_queue q;
	void *doorbell;
	uint64_t ns;

	IS(map_gpu(b, &src), 0);
	IS(create_queue(a, &q, RING_VA), -EINVAL);
	IS(create_queue(b, &q, RING_VA), 0);
	CHECK((q.doorbell_offset >> 46 & 0xffff) == b->id);
	doorbell = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, b->kfd,
			q.doorbell_offset & ~8191ull);
	CHECK(doorbell != MAP_FAILED);
	for (uint32_t i = 0; i < MIB / 4; i++)
		((uint32_t *)src.cpu)[i] = i * 2654435761u + b->id;
	set_parameter("peer_mbps", timed ? "2" : "0");
	ns = now_ns();
	put_copy(&q, dst.va, src.va, MIB);
	((volatile uint64_t *)doorbell)[(q.doorbell_offset & 8191) / 8] = *q.wptr;
	CHECK(drained(&q, 3000));
	ns = now_ns() - ns;
	CHECK(!timed || (reach ? ns >= 524000000 : ns < 400000000));
	set_parameter("peer_mbps", "0");
	CHECK(!memcmp(dst.cpu, src.cpu, MIB));
	destroy.queue_id = q.id;
	IS(try_ioctl(b->kfd, AMDKFD_IOC_DESTROY_QUEUE, &destroy), 0);
	munmap(doorbell, 8192);
	munmap(src.cpu, MIB);
	munmap(dst.cpu, MIB);
	munmap(ring.cpu, RING_BYTES);
	munmap(pointers.cpu, PAGE_BYTES);
	IS(unmap_gpu(b, &src), 0);
	IS(unmap_gpu(a, &src), 0);
	IS(unmap_gpu(b, &dst), 0);
	IS(unmap_gpu(b, &ring), 0);
	IS(unmap_gpu(b, &pointers), 0);
	IS(free_gpu(a, &src), 0);
	IS(free_gpu(b, &dst), 0);
	IS(free_gpu(b, &ring), 0);
	IS(free_gpu(b, &pointers), 0);
}

static int export_fd(const struct gpu *g, uint64_t handle, ino_t *inode)
{
	struct kfd_ioctl_export_dmabuf_args args = { .handle = handle, .flags = O_CLOEXEC };
	struct stat st = {};

	MUST(!try_ioctl(g->kfd, AMDKFD_IOC_EXPORT_DMABUF, &args));
	MUST(!fstat(args.dmabuf_fd, &st));
	*inode = st.st_ino;
	return args.dmabuf_fd;
}

/* What a exports, b imports by KFD and by GEM: it stays the same dma-buf, charged once. */
static void test_sharing(const struct gpu *a, const struct gpu *b)
{
	struct memory m = make(a, VA, MIB, VRAM), copy = { .va = PEER_VA, .size = MIB };
	struct kfd_ioctl_import_dmabuf_args in = { .va_addr = PEER_VA, .gpu_id = b->id };
	struct kfd_ioctl_get_dmabuf_info_args info = {};
	uint64_t free_b = available(b);
	uint32_t first, second;
	ino_t inode, again;
	int fd = export_fd(a, m.handle, &inode), fd2;

	info.dmabuf_fd = fd;
	IS(try_ioctl(b->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), 0);
	CHECK(info.gpu_id == a->id && info.size == MIB);
	in.dmabuf_fd = fd;
	IS(try_ioctl(b->kfd, AMDKFD_IOC_IMPORT_DMABUF, &in), 0);
	copy.handle = in.handle;
	CHECK(in.handle >> 32 == b->id && available(b) == free_b);
	IS(map_gpu(b, &copy), 0);
	fd2 = export_fd(b, copy.handle, &again);
	CHECK(inode == again);
	close(fd2);

	CHECK(!drmPrimeFDToHandle(b->render, fd, &first));
	CHECK(!drmPrimeFDToHandle(b->render, fd, &second) && first == second);
	CHECK(!drmPrimeHandleToFD(b->render, first, DRM_RDWR | DRM_CLOEXEC, &fd2));
	struct stat st = {};
	CHECK(!fstat(fd2, &st) && st.st_ino == inode);
	close(fd2);
	CHECK(!drmCloseBufferHandle(b->render, first));
	close(fd);
	munmap(m.cpu, MIB);
	IS(unmap_gpu(a, &m), 0);
	IS(free_gpu(a, &m), 0);
	IS(unmap_gpu(b, &copy), 0);
	IS(free_gpu(b, &copy), 0);
}

/* A fault names the GPU that made it. */
static void test_fault(const struct gpu *g)
{
	struct memory page = make(g, PAGE_VA, 32768, GTT);
	struct kfd_event_data data = {};
	struct kfd_ioctl_wait_events_args wait = { .events_ptr = (uintptr_t)&data,
						   .num_events = 1, .timeout = 2000 };
	struct sdma_queue q;
	uint32_t event;

	IS(create_event(g, KFD_IOC_EVENT_SIGNAL, 0, page.handle, &event), 0);
	IS(create_event(g, KFD_IOC_EVENT_MEMORY, 0, 0, &event), 0);
	make_ring(g, RING_VA);
	IS(create_queue(g, &q, RING_VA), 0);
	put_copy(&q, NOWHERE, RING_VA, 4096);
	data.event_id = event;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_WAIT_EVENTS, &wait), 0);
	CHECK(wait.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE);
	CHECK(data.memory_exception_data.gpu_id == g->id);
	CHECK(data.memory_exception_data.va == NOWHERE);
	/* Queue, events and memory are left to the end of the process. */
}

static unsigned int apertures(int kfd)
{
	struct kfd_ioctl_get_process_apertures_new_args a = {};

	MUST(!try_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a));
	return a.num_of_nodes;
}

/* What is seen is settled by the first open of /dev/kfd, in the cgroup of that moment. */
static void test_hidden(unsigned int hide)
{
	struct kfd_ioctl_criu_args info = { .op = KFD_CRIU_OP_PROCESS_INFO };
	struct kfd_ioctl_acquire_vm_args vm = { .gpu_id = nodes[hide].gpu_id };
	char path[128];
	struct gpu other;
	unsigned int i;
	int kfd;

	MUST(!enter_filtered(nodes[hide].minor, path, sizeof(path)));
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	MUST(kfd >= 0);
	CHECK(open_render(nodes[hide].minor) < 0 && errno == EPERM);
	IS(apertures(kfd), nr_nodes - 1);
	for (i = 0; i < nr_nodes; i++)
		IS(node_gpu_id(nodes[i].index), i == hide ? -EPERM : (long)nodes[i].gpu_id);
	IS(property(nodes[hide].index, "properties", "simd_count"), -EPERM);
	IS(property(nodes[hide].index, "mem_banks/0/properties", "heap_type"), -EPERM);
	IS(property(nodes[hide].index, "caches/0/properties", "level"), -EPERM);
	IS(property(nodes[hide].index, "io_links/0/properties", "type"), -EPERM);
	other = use_gpu(kfd, !hide);
	vm.drm_fd = other.render;
	IS(try_ioctl(kfd, AMDKFD_IOC_ACQUIRE_VM, &vm), -EINVAL);
	CHECK(mmap(NULL, 8192, PROT_READ, MAP_SHARED, kfd,
		   3ull << 62 | (uint64_t)nodes[hide].gpu_id << 46) == MAP_FAILED &&
	      errno == EINVAL);
	IS(try_ioctl(kfd, AMDKFD_IOC_CRIU_OP, &info), 0);
	CHECK(info.num_devices == nr_nodes - 1);
	info.op = KFD_CRIU_OP_UNPAUSE;
	IS(try_ioctl(kfd, AMDKFD_IOC_CRIU_OP, &info), 0);
	/* A wider cgroup later changes what sysfs shows, not what the process has. */
	CHECK(!leave_filtered(path));
	i = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	IS(apertures(i), nr_nodes - 1);
	IS(node_gpu_id(nodes[hide].index), (long)nodes[hide].gpu_id);
}

static void test_all_hidden(void)
{
	struct kfd_ioctl_criu_args a = { .op = KFD_CRIU_OP_PROCESS_INFO };
	char path[128];
	int kfd;

	MUST(!enter_filtered(ALL_MINORS, path, sizeof(path)));
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	MUST(kfd >= 0);
	IS(apertures(kfd), 0);
	IS(try_ioctl(kfd, AMDKFD_IOC_CRIU_OP, &a), -ENODEV);
	a.op = KFD_CRIU_OP_CHECKPOINT;
	a.devices = a.bos = a.priv_data = (uintptr_t)&a;
	IS(try_ioctl(kfd, AMDKFD_IOC_CRIU_OP, &a), -ENODEV);
	CHECK(!leave_filtered(path));
}

static void test_visible(void)
{
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	struct gpu g[MAX_GPUS];
	unsigned int i, j;

	MUST(kfd >= 0);
	test_topology(kfd);
	for (i = 0; i < nr_nodes; i++)
		g[i] = use_gpu(kfd, i);
	for (i = 0; i < nr_nodes; i++) {
		j = (i + 1) % nr_nodes;
		test_memory(&g[i], &g[j]);
		test_peers(&g[i], &g[j], peers(i, j));
		test_copy(&g[i], &g[j], peers(i, j), i + j == 1);
		test_sharing(&g[i], &g[j]);
	}
	test_fault(&g[nr_nodes - 1]);
}

static void test_alone(void)
{
	test_unbound(open("/dev/kfd", O_RDWR | O_CLOEXEC));
}

static void test_first_hidden(void)
{
	test_hidden(0);
}

static void test_last_hidden(void)
{
	test_hidden(nr_nodes - 1);
}

/* Each part is a process of its own: what a process may see is settled once. */
int main(void)
{
	find_nodes();
	printf("%u GPUs\n", nr_nodes);
	if (nr_nodes < 2) {
		printf("gpus_bare needs two GPUs: load the module with gpus=2\n");
		return 1;
	}
	in_child("gpus_bare, all visible", test_visible);
	in_child("gpus_bare, without a VM", test_alone);
	in_child("gpus_bare, none visible", test_all_hidden);
	in_child("gpus_bare, first hidden", test_first_hidden);
	in_child("gpus_bare, last hidden", test_last_hidden);
	return report("gpus_bare");
}
