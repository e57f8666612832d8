// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AMDKFD_IOC_CRIU_OP without CRIU: a traced child is dumped, another one restored from
 * it. Checks who may call, the errors, and that memory, events and queues come back.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <pthread.h>

#include "criu/image.h"
#include "kernel.h"

#define MIB (1024ull * 1024)
#define VRAM_VA 0x200000000ull
#define QUEUE_VA 0x210000000ull
#define PAGE_VA 0x220000000ull
#define USER_VA 0x230000000ull

/* What the parent, the source and the restored process share. */
struct shared {
	struct image image;
	struct gpu gpu;
	uint32_t plain, automatic, memory;
	struct sdma_queue queue;
	int step, with_memory;
};

static struct shared *shared;

static void go(int step)
{
	__atomic_store_n(&shared->step, step, __ATOMIC_RELEASE);
}

static void await(int step)
{
	uint64_t end = now_ns() + 20000000000ull;

	while (__atomic_load_n(&shared->step, __ATOMIC_ACQUIRE) < step) {
		MUST(now_ns() < end);
		usleep(1000);
	}
}

/* Holds one of everything and a queue that waits for words[0] == 5. */
static void source(void)
{
	struct gpu g = open_gpu();
	struct memory user, vram, page;
	struct sdma_queue q;
	void *p;

	MUST(!acquire(&g, g.render));
	vram = make(&g, VRAM_VA, MIB, VRAM);
	make_ring(&g, QUEUE_VA);
	page = make(&g, PAGE_VA, 32768, GTT);
	p = mmap((void *)USER_VA, MIB, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	MUST(p != MAP_FAILED);
	memset(p, 0x42, MIB);
	MUST(!allocate(&g, &user, USER_VA, MIB, USERPTR | WRITABLE, USER_VA));
	MUST(!map_gpu(&g, &user));
	MUST(!create_event(&g, KFD_IOC_EVENT_SIGNAL, 0, page.handle, &shared->plain));
	MUST(!create_event(&g, KFD_IOC_EVENT_SIGNAL, 1, 0, &shared->automatic));
	MUST(!create_event(&g, KFD_IOC_EVENT_MEMORY, 0, 0, &shared->memory));
	MUST(!set_event(&g, shared->automatic));
	for (uint32_t i = 0; i < MIB / 4; i++)
		((uint32_t *)vram.cpu)[i] = i * 3;
	MUST(!create_queue(&g, &q, QUEUE_VA));
	put_copy(&q, VRAM_VA + MIB / 2, VRAM_VA, 4096);
	MUST(drained(&q, 2000));
	put_wait(&q, q.words_va, 5);
	put_copy(&q, USER_VA, VRAM_VA, MIB / 2);
	put_fence(&q, PAGE_VA + 8 * shared->plain, shared->plain);
	put_trap(&q, shared->plain);
	shared->gpu = g;
	shared->queue = q;
	MUST(!failures);
	go(1);
	for (;;)
		pause();
}

static void *call_from_thread(void *kfd)
{
	return (void *)(intptr_t)criu_simple(*(int *)kfd, KFD_CRIU_OP_PROCESS_INFO, 0);
}

static void dump(pid_t pid)
{
	struct kfd_criu_device_bucket *device = &shared->image.devices[0];
	struct kfd_ioctl_criu_args a = {};
	int pidfd = syscall(SYS_pidfd_open, pid, 0), kfd;
	pthread_t thread;
	void *result;

	kfd = syscall(SYS_pidfd_getfd, pidfd, shared->gpu.kfd, 0);
	MUST(kfd >= 0);
	IS(criu_simple(kfd, KFD_CRIU_OP_PROCESS_INFO, 0), -EBADF);
	MUST(!ptrace(PTRACE_SEIZE, pid, 0, 0));
	MUST(!pthread_create(&thread, NULL, call_from_thread, &kfd));
	MUST(!pthread_join(thread, &result));
	CHECK((intptr_t)result == -EBADF);
	IS(set_event(&(struct gpu){ .kfd = kfd }, shared->plain), -EBADF);
	IS(criu_simple(kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
	IS(criu_simple(kfd, 99, 0), -EINVAL);
	a.devices = a.bos = a.priv_data = (uintptr_t)&a;
	IS(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	CHECK(counter("evicted") == 0);

	image_pause(&shared->image, kfd);
	CHECK(counter("evicted") == 1);
	a = shared->image.info;
	CHECK((pid_t)a.pid == pid && a.num_devices == 1 && a.num_bos == 5 && a.num_objects == 4);
	CHECK(a.priv_data_size == 8 + 8 + 5 * kernel_now()->bo_bytes + 120 + sdma_mqd_bytes() + 3 * 64);
	a = image_args(&shared->image);
	device->drm_fd = 1234;
	IS(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &a), 0);
	CHECK(!device->drm_fd && device->actual_gpu_id == shared->gpu.id);
	image_transfer(&shared->image, 0);

	/* Paused: the dependency is met but nothing moves. Then it does. */
	CHECK(shared->image.bos[0].addr == VRAM_VA && shared->image.bos[0].size == MIB);
	CHECK(shared->image.bos[4].dmabuf_fd == KFD_INVALID_FD);
	CHECK(!memcmp(shared->image.contents[0] + MIB / 2, shared->image.contents[0], 4096));
	/* A second pause is none, but for some kernels; these would never let it go. */
	if (!kernel_now()->pauses_again)
		IS(criu_simple(kfd, KFD_CRIU_OP_PROCESS_INFO, 0), 0);
	CHECK(counter("evicted") == 1);
	IS(criu_simple(kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
	CHECK(counter("evicted") == 0);
	IS(criu_simple(kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
	close(kfd);
	close(pidfd);
}

static void restore_errors(const struct gpu *g)
{
	struct kfd_ioctl_criu_args a = image_args(&shared->image);

	IS(criu_simple(g->kfd, KFD_CRIU_OP_RESTORE, 0), -EINVAL);
	IS(criu_simple(g->kfd, KFD_CRIU_OP_RESUME, getpid()), -EINVAL);
	a.bos = 0;
	IS(criu_op(g->kfd, KFD_CRIU_OP_RESTORE, &a), -EINVAL);
}

static void restored(void)
{
	struct gpu g = open_gpu();
	struct sdma_queue q = shared->queue;
	uint64_t *slots = (uint64_t *)PAGE_VA;
	long long faults = counter("gpu_faults");
	uint32_t id;

	restore_errors(&g);
	shared->image.devices[0].drm_fd = g.render;
	IS(image_restore(&shared->image, g.kfd), 0);
	IS(acquire(&g, g.render), 0);
	image_map(&shared->image, VRAM_VA, g.render);
	image_map_ring(&shared->image, QUEUE_VA, g.render);
	image_map(&shared->image, PAGE_VA, g.render);
	CHECK(slots[1] == UINT64_MAX);
	image_transfer(&shared->image, 1);
	CHECK(!memcmp((void *)VRAM_VA, shared->image.contents[0], MIB));
	CHECK(*q.rptr == 28);
	if (shared->with_memory)
		MUST(mmap((void *)USER_VA, MIB, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	go(2);

	/* RESUME was called. A userptr without memory behind it is no reason to wait, but the GPU faults there. */
	await(3);
	for (int i = 0; i < 100 && counter("evicted"); i++)
		usleep(10000);
	CHECK(counter("evicted") == 0);
	q.words[0] = 5;
	if (!shared->with_memory) {
		CHECK(!drained(&q, 300));
		CHECK(counter("gpu_faults") > faults);
		return;
	}
	CHECK(drained(&q, 3000));
	CHECK(counter("evicted") == 0);
	CHECK(!memcmp((void *)USER_VA, (void *)VRAM_VA, MIB / 2));
	IS(wait_event(&g, shared->plain, 2000), KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(&g, shared->automatic, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(&g, shared->automatic, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	IS(create_event(&g, KFD_IOC_EVENT_SIGNAL, 0, 0, &id), 0);
	CHECK(id == 3);
	/* A process that has a VM cannot be restored into. */
	IS(image_restore(&shared->image, g.kfd), -EINVAL);
}

/* The last mappings of a dead process go a moment after it does; this one is a KFD process too. */
static int settled(void)
{
	for (int i = 0; i < 100 && (counter("processes") > 1 || counter("bos") || counter("maps")); i++)
		usleep(20000);
	if (!counter("bos") && !counter("maps") && !counter("queues") && !counter("evicted"))
		return 1;
	printf("left: %lld BOs, %lld mappings, %lld queues, %lld evicted\n", counter("bos"), counter("maps"),
	       counter("queues"), counter("evicted"));
	return 0;
}

int main(void)
{
	int kfd, status;
	pid_t pid;

	setvbuf(stdout, NULL, _IONBF, 0);
	shared = shared_memory(sizeof(*shared));
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	MUST(kfd >= 0);
	pid = fork();
	if (!pid)
		source();
	await(1);
	dump(pid);
	/* A death in any state: traced, evicted, a packet pending. */
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	CHECK(settled());

	IS(criu_simple(kfd, KFD_CRIU_OP_RESUME, 0x7ffffff), -ESRCH);
	IS(criu_simple(kfd, KFD_CRIU_OP_RESUME, 1), -ESRCH);
	for (shared->with_memory = 0; shared->with_memory < 2; shared->with_memory++) {
		go(1);
		pid = fork();
		if (!pid) {
			checks = failures = differences = skips = 0;
			restored();
			exit(report("criu_test, restored"));
		}
		await(2);
		IS(criu_simple(kfd, KFD_CRIU_OP_RESUME, pid), 0);
		IS(criu_simple(kfd, KFD_CRIU_OP_RESUME, pid), -EINVAL);
		go(3);
		waitpid(pid, &status, 0);
		CHECK(status == 0);
		CHECK(settled());
	}
	return report("criu_test");
}
