// SPDX-License-Identifier: GPL-2.0 OR MIT
/* /sys/class/kfd/kfd/proc/PID: what the kernel tells of a KFD process, its queues and its evictions. */
#include "child.h"
#include "kernel.h"
#include "kfd/kfd.h"
#include "memory/kfd_dmabuf.h"

#define VA 0x200000000ull
#define BYTES (4ull << 20)

/* A file of our own folder, by the form of its name; "" if there is none. */
__attribute__((format(printf, 1, 2)))
static const char *own(const char *form, ...)
{
	static char text[64];
	char path[200];
	size_t n = snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/", getpid());
	va_list ap;
	FILE *f;

	va_start(ap, form);
	vsnprintf(path + n, sizeof(path) - n, form, ap);
	va_end(ap);
	text[0] = 0;
	f = fopen(path, "r");
	if (f) {
		if (!fgets(text, sizeof(text), f))
			text[0] = 0;
		fclose(f);
	}
	return text;
}

static void test_queues(const struct gpu *g)
{
	struct kfd_ioctl_destroy_queue_args destroy = {};
	struct sdma_queue q;
	char want[16];

	CHECK(!own("queues/0/type")[0]);
	make_ring(g, VA);
	MUST(!create_queue(g, &q, VA));
	snprintf(want, sizeof(want), "%u", g->id);
	/* There is no newline: kfd_process.c:kfd_procfs_queue_show @ 6.12.117. */
	CHECK(!strcmp(own("queues/%u/type", q.id), "1"));
	CHECK(!strcmp(own("queues/%u/gpuid", q.id), want));
	CHECK(atoi(own("queues/%u/size", q.id)) == RING_BYTES);
	if (!skip_on_real("the time of SDMA queues: no firmware counts it there")) {
		struct memory data = make(g, VA + BYTES, BYTES, VRAM);

		set_parameter("dma_mbps", "40");
		CHECK(atoi(own("sdma_%u", g->id)) == 0);
		put_copy(&q, data.va, data.va + BYTES / 2, BYTES / 2);
		CHECK(drained(&q, 5000));
		set_parameter("dma_mbps", "0");
		/* 2 MiB at 40 MB/s, in us. */
		CHECK(atoi(own("sdma_%u", g->id)) / 1000 == 52);
	}
	destroy.queue_id = q.id;
	MUST(!try_ioctl(g->kfd, AMDKFD_IOC_DESTROY_QUEUE, &destroy));
	CHECK(!own("queues/%u/type", q.id)[0]);
}

/* An import has no VRAM of its own. */
static void test_vram(const struct gpu *g)
{
	long long before = atoll(own("vram_%u", g->id));
	struct memory memory = make(g, VA + (64ull << 20), BYTES, VRAM), import;
	int dmabuf = export_kfd(g, memory.handle);

	CHECK(atoll(own("vram_%u", g->id)) == before + (long long)BYTES);
	if (dmabuf >= 0) {		/* 6.1 cannot export */
		IS(import_kfd(g, &import, dmabuf, g->id, VA + (128ull << 20), BYTES), 0);
		CHECK(atoll(own("vram_%u", g->id)) == before + (long long)BYTES);
		IS(free_gpu(g, &import), 0);
		CHECK(atoll(own("vram_%u", g->id)) == before + (long long)BYTES);
		close(dmabuf);
	}
	CHECK(dmabuf >= 0 || (dmabuf == -ENOTTY && kernel_now() == kernels));
	IS(unmap_gpu(g, &memory), 0);
	IS(free_gpu(g, &memory), 0);
	CHECK(atoll(own("vram_%u", g->id)) == before);
}

/* An eviction counts when it is over. */
static void test_evictions(const struct gpu *g)
{
	struct kfd_ioctl_criu_args info = {};
	long long ms = atoll(own("stats_%u/evicted_ms", g->id));

	MUST(own("stats_%u/evicted_ms", g->id)[0]);
	MUST(!criu_op(g->kfd, KFD_CRIU_OP_PROCESS_INFO, &info));
	usleep(100000);
	CHECK(atoll(own("stats_%u/evicted_ms", g->id)) == ms);
	MUST(!criu_simple(g->kfd, KFD_CRIU_OP_UNPAUSE, 0));
	ms = atoll(own("stats_%u/evicted_ms", g->id)) - ms;
	CHECK(ms >= 90 && ms < 5000);
}

/*
 * One that begins before there is a VM is reckoned from the time 0 of the kernel's clock, 5 minutes before its counter
 * overflows for the first time (kfd_device_queue_manager.c:evict_process_queues_cpsch @ 6.12.117; not so @ 6.1.192). So
 * ends that of RESTORE.
 */
static void test_before_vm(void)
{
	struct kfd_ioctl_criu_args info = {};
	struct gpu g = open_gpu();
	long long ms;

	MUST(!criu_op(g.kfd, KFD_CRIU_OP_PROCESS_INFO, &info));
	MUST(!acquire(&g, g.render));
	MUST(!criu_simple(g.kfd, KFD_CRIU_OP_UNPAUSE, 0));
	ms = atoll(own("stats_%u/evicted_ms", g.id));
	CHECK(kernel_now()->dates_evictions ? ms >= 0 && ms < 5000 : ms > 1000000000);
}

static void child(void)
{
	struct gpu g = open_gpu();

	CHECK(own("pasid")[0]);
	CHECK(own("vram_%u", g.id)[0]);
	CHECK(own("sdma_%u", g.id)[0]);
	MUST(!acquire(&g, g.render));
	test_queues(&g);
	test_vram(&g);
	test_evictions(&g);
}

int main(void)
{
	in_child("files of a process", child);
	in_child("an eviction before there is a VM", test_before_vm);
	return report("procfs_test");
}
