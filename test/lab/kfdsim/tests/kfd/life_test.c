// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The end of a KFD process of which somebody else has a file: its queues end with its memory or with the file, as the
 * kernel has it; all else of it ends with the file.
 */
#include <sys/prctl.h>

#include "child.h"
#include "kernel.h"
#include "kfd/kfd.h"

#define QUEUE_VA 0x200000000ull
#define DATA_VA 0x210000000ull
#define USER_VA 0x220000000ull
#define BYTES (8ull << 20)
#define MBPS "16"			/* half of BYTES in 262 ms */

static volatile uint32_t *const source = (uint32_t *)DATA_VA, *const copy = (uint32_t *)(DATA_VA + BYTES / 2);
static int with_userptr;

static int has_folder(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d", pid);
	return !access(path, F_OK);
}

/* Has the file and the mappings of its parent, which is gone. */
static void holder(pid_t parent)
{
	int goes_on = kernel_now()->outlives && !with_userptr;

	while (getppid() == parent)
		usleep(1000);
	usleep(600000);
	IS(copy[BYTES / 8 - 1], goes_on ? 7 : 0);
	IS(counter("queues"), kernel_now()->outlives);
	CHECK(has_folder(parent));
}

static void user(void)
{
	struct gpu g = open_gpu();
	struct sdma_queue q;
	struct memory m;
	pid_t self = getpid();

	MUST(!acquire(&g, g.render));
	make_ring(&g, QUEUE_VA);
	make(&g, DATA_VA, BYTES, GTT);
	if (with_userptr) {
		MUST(mmap((void *)USER_VA, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			  -1, 0) != MAP_FAILED);
		MUST(!allocate(&g, &m, USER_VA, 4096, USERPTR | WRITABLE, USER_VA));
		MUST(!map_gpu(&g, &m));
	}
	for (uint32_t i = 0; i < BYTES / 8; i++)
		source[i] = 7;
	MUST(!create_queue(&g, &q, QUEUE_VA));
	fflush(stdout);
	if (!fork()) {
		checks = failures = 0;
		holder(self);
		report("life_test, who has a file of another");
		_exit(!!failures);
	}
	/* So that what comes last is not yet copied when this ends. */
	put_copy(&q, (uintptr_t)copy, (uintptr_t)source, BYTES / 2);
	while (!copy[0])
		usleep(1000);
	CHECK(!copy[BYTES / 8 - 1]);
}

/* The holder is given to this one: it outlives its parent. */
static void test_end(void)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		checks = failures = 0;
		user();
		exit(report("life_test, a process that ends"));
	}
	MUST(waitpid(pid, &status, 0) == pid);
	IS(status, 0);
	MUST(wait(&status) > 0);
	IS(status, 0);
	CHECK(gone(5000));
	CHECK(!has_folder(pid));
}

int main(void)
{
	MUST(!prctl(PR_SET_CHILD_SUBREAPER, 1));
	set_parameter("dma_mbps", MBPS);
	for (int i = 0; i < KERNELS; i++) {
		if (!behave_as(&kernels[i]))
			continue;
		for (with_userptr = 0; with_userptr < 2; with_userptr++)
			test_end();
	}
	set_parameter("dma_mbps", "0");
	behave_as(&kernels[KERNEL_OF_GUEST]);
	return report("life_test");
}
