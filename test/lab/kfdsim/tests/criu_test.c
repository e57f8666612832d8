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

#include "kfd.h"

#define MIB (1024ull * 1024)
#define VRAM_VA 0x200000000ull
#define QUEUE_VA 0x210000000ull
#define PAGE_VA 0x220000000ull
#define USER_VA 0x230000000ull
#define MAX_BOS 16
#define MAX_BLOB 65536

/* What the parent, the source and the restored process share. */
struct shared {
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_device_bucket device;
	struct kfd_criu_bo_bucket bos[MAX_BOS];
	uint8_t blob[MAX_BLOB];
	uint8_t contents[MAX_BOS][MIB];
	uint8_t user[MIB];
	struct gpu gpu;
	uint32_t plain, automatic, memory;
	struct sdma_queue queue;
	int checks, failures, step;
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

static int criu(int kfd, uint32_t op, struct kfd_ioctl_criu_args *a)
{
	a->op = op;
	return try_ioctl(kfd, AMDKFD_IOC_CRIU_OP, a);
}

static int simple(int kfd, uint32_t op, pid_t pid)
{
	struct kfd_ioctl_criu_args a = { .pid = pid };

	return criu(kfd, op, &a);
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
	make(&g, QUEUE_VA, QUEUE_BYTES, GTT);
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
	shared->checks = checks;
	shared->failures = failures;
	go(1);
	for (;;)
		pause();
}

/* Content is dumped and filled by the CPU here; that is what dma-buf mmap is for. */
static void transfer(int to_bo)
{
	for (uint32_t i = 0; i < shared->args.num_bos; i++) {
		struct kfd_criu_bo_bucket *b = &shared->bos[i];
		void *p;

		if (b->dmabuf_fd == KFD_INVALID_FD)
			continue;
		CHECK(!(fcntl(b->dmabuf_fd, F_GETFD) & FD_CLOEXEC));
		p = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->dmabuf_fd, 0);
		MUST(p != MAP_FAILED);
		if (to_bo)
			memcpy(p, shared->contents[i], b->size);
		else
			memcpy(shared->contents[i], p, b->size);
		munmap(p, b->size);
		close(b->dmabuf_fd);
	}
}

static int highest_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

static void *call_from_thread(void *kfd)
{
	return (void *)(intptr_t)simple(*(int *)kfd, KFD_CRIU_OP_PROCESS_INFO, 0);
}

static void checkpoint_errors(int kfd)
{
	struct kfd_ioctl_criu_args a = shared->args, ok;

	a.devices = (uintptr_t)&shared->device;
	a.bos = (uintptr_t)shared->bos;
	a.priv_data = (uintptr_t)shared->blob;
	ok = a;
	a.devices = 0;
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	a = ok;
	a.bos = 0;
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	a = ok;
	a.priv_data = 0;
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	a = ok;
	a.num_objects++;
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	a = ok;
	a.num_devices = 2;
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	a = ok;
	a.priv_data_size--;
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	a = ok;
	a.priv_data = 4096;
	int fd = highest_fd();
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EFAULT);
	CHECK(highest_fd() == fd);
}

static void dump(pid_t pid)
{
	struct kfd_ioctl_criu_args a = {};
	int pidfd = syscall(SYS_pidfd_open, pid, 0), kfd;
	pthread_t thread;
	void *result;

	kfd = syscall(SYS_pidfd_getfd, pidfd, shared->gpu.kfd, 0);
	MUST(kfd >= 0);
	IS(simple(kfd, KFD_CRIU_OP_PROCESS_INFO, 0), -EBADF);
	MUST(!ptrace(PTRACE_SEIZE, pid, 0, 0));
	MUST(!pthread_create(&thread, NULL, call_from_thread, &kfd));
	MUST(!pthread_join(thread, &result));
	CHECK((intptr_t)result == -EBADF);
	IS(set_event(&(struct gpu){ .kfd = kfd }, shared->plain), -EBADF);
	IS(simple(kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
	IS(simple(kfd, 99, 0), -EINVAL);
	a.devices = a.bos = a.priv_data = (uintptr_t)&a;
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	CHECK(counter("evicted") == 0);

	a = (struct kfd_ioctl_criu_args){};
	IS(criu(kfd, KFD_CRIU_OP_PROCESS_INFO, &a), 0);
	CHECK(counter("evicted") == 1);
	CHECK((pid_t)a.pid == pid && a.num_devices == 1 && a.num_bos == 4 && a.num_objects == 4);
	CHECK(a.priv_data_size == 8 + 8 + 4 * 272 + 120 + 512 + 3 * 64);
	shared->args = a;
	checkpoint_errors(kfd);
	a.devices = (uintptr_t)&shared->device;
	a.bos = (uintptr_t)shared->bos;
	a.priv_data = (uintptr_t)shared->blob;
	shared->device.drm_fd = 1234;
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &a), 0);
	CHECK(shared->device.drm_fd == 1234 && shared->device.actual_gpu_id == shared->gpu.id);
	transfer(0);

	/* Paused: the dependency is met but nothing moves. Then it does. */
	CHECK(shared->bos[0].addr == VRAM_VA && shared->bos[0].size == MIB);
	CHECK(shared->bos[3].dmabuf_fd == KFD_INVALID_FD);
	CHECK(!memcmp(shared->contents[0] + MIB / 2, shared->contents[0], 4096));
	/* Counted as in 6.12: two pauses, one unpause, still evicted. */
	IS(simple(kfd, KFD_CRIU_OP_PROCESS_INFO, 0), 0);
	IS(simple(kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
	CHECK(counter("evicted") == 1);
	IS(simple(kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
	close(kfd);
	close(pidfd);
}

static void restore_errors(const struct gpu *g)
{
	struct kfd_ioctl_criu_args a = shared->args;

	IS(simple(g->kfd, KFD_CRIU_OP_RESTORE, 0), -EINVAL);
	IS(simple(g->kfd, KFD_CRIU_OP_RESUME, getpid()), -EINVAL);
	a.devices = (uintptr_t)&shared->device;
	a.bos = 0;
	a.priv_data = (uintptr_t)shared->blob;
	IS(criu(g->kfd, KFD_CRIU_OP_RESTORE, &a), -EINVAL);
}

static void map_restored(const struct gpu *g)
{
	for (uint32_t i = 0; i < shared->args.num_bos; i++) {
		struct kfd_criu_bo_bucket *b = &shared->bos[i];

		if (b->alloc_flags & USERPTR)
			continue;
		MUST(mmap((void *)b->addr, b->size, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_FIXED, g->render, b->restored_offset) != MAP_FAILED);
	}
}

static void restored(void)
{
	struct gpu g = open_gpu();
	struct kfd_ioctl_criu_args a = shared->args;
	struct sdma_queue q = shared->queue;
	uint64_t *slots = (uint64_t *)PAGE_VA;
	uint32_t id;

	restore_errors(&g);
	a.devices = (uintptr_t)&shared->device;
	a.bos = (uintptr_t)shared->bos;
	a.priv_data = (uintptr_t)shared->blob;
	shared->device.drm_fd = g.render;
	IS(criu(g.kfd, KFD_CRIU_OP_RESTORE, &a), 0);
	IS(acquire(&g, g.render), 0);
	map_restored(&g);
	CHECK(slots[1] == UINT64_MAX);
	transfer(1);
	CHECK(!memcmp((void *)VRAM_VA, shared->contents[0], MIB));
	CHECK(*q.rptr == 28);
	go(3);

	/* RESUME was called, but a userptr has no pages yet: queues must stay still. */
	await(4);
	q.words[0] = 5;
	CHECK(!drained(&q, 200));
	CHECK(counter("evicted") == 1);
	MUST(mmap((void *)USER_VA, MIB, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	CHECK(drained(&q, 3000));
	CHECK(counter("evicted") == 0);
	CHECK(!memcmp((void *)USER_VA, (void *)VRAM_VA, MIB / 2));
	IS(wait_event(&g, shared->plain, 2000), KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(&g, shared->automatic, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	IS(wait_event(&g, shared->automatic, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	IS(create_event(&g, KFD_IOC_EVENT_SIGNAL, 0, 0, &id), 0);
	CHECK(id == 3);
	/* A process that has a VM cannot be restored into. */
	IS(criu(g.kfd, KFD_CRIU_OP_RESTORE, &a), -EINVAL);
	shared->checks = checks;
	shared->failures = failures;
	exit(0);
}

/* Blobs that do not fit: each in a process of its own, as a failure leaves traces. */
static void bad_blobs(void)
{
	static const struct { const char *what; size_t at; uint8_t value; int want; } cases[] = {
		{ "version", 0, 2, -EINVAL },
		{ "xnack", 4, 1, -EPERM },
		{ "idr handle", 16 + 11, 0x80, -EINVAL },
		{ "mapped gpu", 16 + 12, 0xff, -EINVAL },
		{ "object type", 16 + 4 * 272, 7, -EINVAL },
		{ "mqd size", 16 + 4 * 272 + 112, 1, -EINVAL },
		{ "event type", 16 + 4 * 272 + 120 + 512 + 24, 4, -EINVAL },
	};
	struct kfd_ioctl_criu_args a;
	int status;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t keep = shared->blob[cases[i].at];
		pid_t pid = fork();

		if (!pid) {
			struct gpu g = open_gpu();

			a = shared->args;
			shared->device.drm_fd = g.render;
			shared->blob[cases[i].at] = cases[i].value;
			a.devices = (uintptr_t)&shared->device;
			a.bos = (uintptr_t)shared->bos;
			a.priv_data = (uintptr_t)shared->blob;
			int fd = highest_fd(), ret = criu(g.kfd, KFD_CRIU_OP_RESTORE, &a);

			_exit(ret == cases[i].want && highest_fd() == fd ? 0 : -ret);
		}
		waitpid(pid, &status, 0);
		shared->blob[cases[i].at] = keep;
		check_at(__FILE__, __LINE__, status == 0, "blob with another %s: errno %d",
			 cases[i].what, WEXITSTATUS(status));
	}
}

/* The last mappings of a dead process go a moment after it does. */
static void settle(void)
{
	for (int i = 0; i < 100 && (counter("processes") > 1 || counter("bos")); i++)
		usleep(20000);
}

int main(void)
{
	uint8_t blob[MAX_BLOB];
	int kfd, status;
	pid_t pid;

	setvbuf(stdout, NULL, _IONBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	MUST(shared != MAP_FAILED);
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	MUST(kfd >= 0);
	pid = fork();
	if (!pid)
		source();
	await(1);
	failures += shared->failures;
	dump(pid);
	/* A death in any state: traced, evicted, a packet pending. */
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	settle();
	IS(counter("evicted"), 0);
	IS(counter("queues"), 0);
	IS(counter("bos"), 0);
	memcpy(blob, shared->blob, sizeof(blob));
	bad_blobs();
	memcpy(shared->blob, blob, sizeof(blob));
	settle();

	IS(simple(kfd, KFD_CRIU_OP_RESUME, 0x7ffffff), -ESRCH);
	IS(simple(kfd, KFD_CRIU_OP_RESUME, 1), -ESRCH);
	go(2);
	pid = fork();
	if (!pid) {
		checks = failures = 0;
		restored();
	}
	await(3);
	IS(simple(kfd, KFD_CRIU_OP_RESUME, pid), 0);
	IS(simple(kfd, KFD_CRIU_OP_RESUME, pid), -EINVAL);
	go(4);
	waitpid(pid, &status, 0);
	CHECK(status == 0);
	failures += shared->failures;
	checks += shared->checks;
	settle();
	CHECK(counter("bos") == 0 && counter("maps") == 0);
	return report("criu_test");
}
