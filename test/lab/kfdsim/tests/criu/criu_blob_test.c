// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What CRIU_OP takes and gives: a blob made by hand is restored under a GPU id of another
 * machine and dumped again, byte for byte the same; and all that differs between kernels.
 */
#define _GNU_SOURCE
#include "child.h"
#include "criu/blob_sample.h"

/* The GPU of g under the id it had where the image comes from. */
static struct gpu renamed(void)
{
	struct gpu g = open_gpu();

	g.id ^= 0x4000;
	return g;
}

/* The process dumps itself; what comes must be what went in. */
static void dump_is_equal(const struct gpu *g)
{
	struct kfd_ioctl_criu_args a = {};
	struct blob got;
	size_t i;

	IS(criu_op(g->kfd, KFD_CRIU_OP_PROCESS_INFO, &a), 0);
	CHECK(a.num_devices == 1 && a.num_bos == blob.nr_bos && a.num_objects == blob.nr_objects);
	IS(a.priv_data_size, blob.used);
	memset(&got, 0xee, sizeof(got));
	a.devices = (uintptr_t)&got.device;
	a.bos = (uintptr_t)got.bos;
	a.priv_data = (uintptr_t)got.data;
	IS(criu_op(g->kfd, KFD_CRIU_OP_CHECKPOINT, &a), 0);
	/* Queues are saved the newest first, so they are the other way round now. */
	exchange_queues(&got);
	for (i = 0; i < blob.used && got.data[i] == blob.data[i]; i++)
		;
	check_at(__FILE__, __LINE__, i == blob.used, "blobs differ at byte %zu of %zu", i, blob.used);
	CHECK(got.data[i] == 0xee);
	CHECK(got.device.user_gpu_id == g->id && got.device.actual_gpu_id == gpu_id());
	CHECK(!got.device.drm_fd);
	for (i = 0; i < blob.nr_bos; i++) {
		const struct kfd_criu_bo_bucket *want = &blob.bos[i], *b = &got.bos[i];
		int content = !!(want->alloc_flags & (VRAM | GTT));

		CHECK(b->addr == want->addr && b->size == want->size && b->gpu_id == g->id);
		CHECK(b->alloc_flags == want->alloc_flags);
		CHECK((b->dmabuf_fd != KFD_INVALID_FD) == content);
		if (b->alloc_flags & DOORBELL)
			CHECK(b->offset == (3ull << 62 | (uint64_t)gpu_id() << 46));
		if (b->alloc_flags & MMIO)
			CHECK(b->offset == (uint64_t)gpu_id() << 46);
		if (content)
			CHECK(b->offset == want->restored_offset && !close(b->dmabuf_fd));
	}
	IS(criu_simple(g->kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
}

/* errno of a mapping of fd, 0 if it works; it is undone. */
static int try_mmap(int fd, uint64_t offset, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, size);
	return 0;
}

/* Which id an offset of /dev/kfd must have, and which file maps a buffer. */
static void test_mappings(const struct gpu *g)
{
	uint64_t actual = (uint64_t)gpu_id() << 46, user = (uint64_t)g->id << 46;
	int other = open(RENDER_NODE, O_RDWR | O_CLOEXEC);
	const struct kfd_criu_bo_bucket *b = blob.bos;

	CHECK(b[4].restored_offset == (3ull << 62 | actual) && b[5].restored_offset == actual);
	CHECK(b[3].restored_offset == UNTOUCHED && b[3].dmabuf_fd == KFD_INVALID_FD);
	IS(try_mmap(g->kfd, 3ull << 62 | actual, 8192), kernel->user_ids ? -ENODEV : 0);
	IS(try_mmap(g->kfd, 3ull << 62 | user, 8192), kernel->user_ids ? 0 : -ENODEV);
	IS(try_mmap(g->kfd, actual, 4096), kernel->user_ids ? -ENODEV : 0);
	IS(try_mmap(g->kfd, user, 4096), kernel->user_ids ? 0 : -ENODEV);
	IS(try_mmap(g->render, b[0].restored_offset, MIB), 0);
	IS(try_mmap(other, b[0].restored_offset, MIB), -EACCES);
	close(other);
}

static int export_dmabuf(const struct gpu *g, uint32_t id, uint32_t number)
{
	struct kfd_ioctl_export_dmabuf_args a = { .handle = (uint64_t)id << 32 | number,
						  .flags = O_CLOEXEC };
	int ret = try_ioctl(g->kfd, AMDKFD_IOC_EXPORT_DMABUF, &a);

	return ret ? ret : (int)a.dmabuf_fd;
}

/*
 * After a restore under another id a handle is of use with that id, but for EXPORT_DMABUF alone of
 * all ioctls, which wants the GPU's own. Both kernels have it so.
 */
static void test_export(const struct gpu *g)
{
	struct kfd_ioctl_get_dmabuf_info_args info = {};
	int fd;

	if (kernel->kfd_minor < 12) {
		IS(export_dmabuf(g, g->id, 0), -ENOTTY);
		return;
	}
	IS(export_dmabuf(g, g->id, 0), -EINVAL);
	IS(export_dmabuf(g, gpu_id(), 50), -EINVAL);
	fd = export_dmabuf(g, gpu_id(), 0);
	MUST(fd >= 0);
	info.dmabuf_fd = fd;
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_DMABUF_INFO, &info), 0);
	CHECK(info.size == MIB && info.gpu_id == gpu_id());
	close(fd);
}

static void test_ids(const struct gpu *g)
{
	struct kfd_process_device_apertures ap = {};
	struct kfd_ioctl_get_process_apertures_new_args a = {
		.kfd_process_device_apertures_ptr = (uintptr_t)&ap, .num_of_nodes = 1 };
	struct gpu actual = *g;
	struct memory m;

	actual.id = gpu_id();
	IS(allocate(&actual, &m, VRAM_VA + MIB, 4096, VRAM | WRITABLE, 0), -EINVAL);
	IS(allocate(g, &m, VRAM_VA + MIB, 4096, VRAM | WRITABLE, 0), 0);
	CHECK(m.handle >> 32 == g->id && (uint32_t)m.handle == 2);
	IS(free_gpu(&actual, &m), 0);
	IS(try_ioctl(g->kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a), 0);
	CHECK(ap.gpu_id == gpu_id());
	IS(acquire(g, g->render), 0);
	IS(acquire(&actual, g->render), -EINVAL);
}

static void map_bo(const struct gpu *g, const struct kfd_criu_bo_bucket *b)
{
	MUST(mmap((void *)b->addr, b->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		  g->render, b->restored_offset) != MAP_FAILED);
}

static void test_resume(const struct gpu *g)
{
	struct sdma_queue q;
	uint32_t id;

	find_queue(&q, QUEUE_VA);
	q.doorbell = map_doorbell(g, 3ull << 62 | (uint64_t)(kernel->user_ids ? g->id : gpu_id()) << 46 |
				  8 * 256);
	put_fence(&q, VRAM_VA, 77);
	CHECK(!drained(&q, 100));
	CHECK(counter("evicted") == 1);
	MUST(mmap((void *)USER_VA, MIB, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	IS(criu_simple(g->kfd, KFD_CRIU_OP_RESUME, getpid()), 0);
	CHECK(drained(&q, 3000));
	CHECK(*(uint32_t *)VRAM_VA == 77);
	CHECK(counter("evicted") == 0);
	IS(wait_event(g, 40, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(g, 40, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	IS(create_event(g, KFD_IOC_EVENT_SIGNAL, 0, 0, &id), 0);
	CHECK(id == 2);
}

static void whole(void)
{
	struct gpu g = renamed();
	uint64_t *slots = (uint64_t *)PAGE_VA;
	int i;

	fill(&blob, g.id);
	blob.bos[3].restored_offset = UNTOUCHED;
	/* The MQDs of several XCCs are saved, and only one is taken back: see kernel.h. */
	if (saved_xccs() > 1) {
		IS(blob_restore(&blob, &g), -EINVAL);
		return;
	}
	IS(blob_restore(&blob, &g), 0);
	dump_is_equal(&g);
	test_mappings(&g);
	test_ids(&g);
	test_export(&g);
	for (i = 0; i < 3; i++)
		map_bo(&g, &blob.bos[i]);
	map_bo(&g, &blob.bos[6]);
	/* The whole page is set to "nothing was signalled": contents go in after RESTORE. */
	for (i = 0; i < 4096 && slots[i] == UINT64_MAX; i++)
		;
	IS(i, 4096);
	test_resume(&g);
}

/* What else depends on the kernel. */
static void others(void)
{
	struct kfd_ioctl_set_xnack_mode_args x = { .xnack_enabled = -1 };
	struct kfd_ioctl_get_version_args v = {};
	struct gpu g = open_gpu();
	uint32_t id;

	IS(try_ioctl(g.kfd, AMDKFD_IOC_GET_VERSION, &v), 0);
	CHECK(v.major_version == 1 && v.minor_version == (uint32_t)kernel->kfd_minor);
	IS(try_ioctl(g.kfd, AMDKFD_IOC_SET_XNACK_MODE, &x), kernel->svm ? 0 : -EPERM);
	CHECK(x.xnack_enabled == (kernel->svm ? 0 : -1));
	x.xnack_enabled = 1;
	IS(try_ioctl(g.kfd, AMDKFD_IOC_SET_XNACK_MODE, &x), kernel->svm && gfx() == 9 ? 0 : -EPERM);
	IS(try_mmap(g.kfd, 2ull << 62, 32768), -EINVAL);
	IS(create_event(&g, KFD_IOC_EVENT_MEMORY, 0, 0, &id), 0);
	IS(create_event(&g, KFD_IOC_EVENT_SIGNAL, 0, 0, &id), kernel->event_page ? 0 : -ENOMEM);
	IS(try_mmap(g.kfd, 2ull << 62, 32768), kernel->event_page ? 0 : -EINVAL);
	if (!on_kfdsim())
		return;
	/* A process stays what it was when it opened the device. */
	behave_as(&kernels[kernel == kernels]);
	IS(try_ioctl(g.kfd, AMDKFD_IOC_GET_VERSION, &v), 0);
	CHECK(v.minor_version == (uint32_t)kernel->kfd_minor);
	behave_as(kernel);
}

static void one(const char *what, void (*run)(void))
{
	char name[80];

	snprintf(name, sizeof(name), "criu_blob_test, %s, %s", kernel->name, what);
	in_child(name, run);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (kernel = kernels; kernel < kernels + KERNELS; kernel++) {
		if (!behave_as(kernel))
			continue;
		if (gfx() < 10 || (gfx() == 10 && !kernel->acquires)) {
			if (!skip_on_real("MQDs made by hand are those of kfdsim"))
				one("whole image", whole);
		}
		one("other differences", others);
	}
	behave_as(&kernels[KERNEL_OF_GUEST]);
	return report("criu_blob_test");
}
