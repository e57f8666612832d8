// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * stress_test [PROCESSES]: processes that die at random moments: while allocating, copying,
 * waiting, evicted, with the files held by a child. Everything must be released.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kfd/kfd.h"

#define MIB (1024ull * 1024)
#define VA 0x200000000ull
#define PROCESSES 60

static void victim(unsigned int seed)
{
	struct memory a, b, user;
	struct sdma_queue q;
	struct gpu g;
	uint32_t event;
	void *p;

	srand(seed);
	g = open_gpu();
	MUST(!acquire(&g, g.render));
	make_ring(&g, VA);
	a = make(&g, VA + 16 * MIB, 8 * MIB, VRAM);
	b = make(&g, VA + 32 * MIB, 8 * MIB, GTT);
	p = mmap((void *)(VA + 64 * MIB), MIB, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	MUST(!allocate(&g, &user, VA + 64 * MIB, MIB, USERPTR | WRITABLE, (uintptr_t)p));
	MUST(!map_gpu(&g, &user));
	MUST(!create_event(&g, KFD_IOC_EVENT_SIGNAL, 0, 0, &event));
	MUST(!create_queue(&g, &q, VA));
	if (seed % 5 == 0 && !fork()) {
		usleep(rand() % 200000);
		_exit(0);
	}
	if (seed % 7 == 0) {
		struct kfd_ioctl_criu_args args = { .op = KFD_CRIU_OP_PROCESS_INFO };

		MUST(!try_ioctl(g.kfd, AMDKFD_IOC_CRIU_OP, &args));
	}
	if (seed % 3 == 0) {
		/* After exec the mm is another one: the open file is that of a dead process. */
		put_copy(&q, a.va, b.va, 8 * MIB);
		fcntl(g.kfd, F_SETFD, 0);
		execl("/bin/sleep", "sleep", "60", NULL);
		_exit(1);
	}
	for (;;) {
		put_copy(&q, a.va, b.va, 8 * MIB);
		put_copy(&q, user.va, a.va, MIB);
		put_copy(&q, b.va, user.va, MIB);
		if (!drained(&q, 20))
			wait_event(&g, event, 1000);
	}
}

int main(int argc, char **argv)
{
	int processes = argc > 1 ? atoi(argv[1]) : PROCESSES;
	long long faults = counter("gpu_faults");
	pid_t pids[4];
	int i, j;

	setvbuf(stdout, NULL, _IONBF, 0);
	srand(1);
	for (i = 0; i < processes; i += 4) {
		for (j = 0; j < 4; j++) {
			pids[j] = fork();
			if (!pids[j])
				victim(i + j);
		}
		for (j = 0; j < 4; j++) {
			usleep(rand() % 60000);
			CHECK(!kill(pids[j], SIGKILL));
		}
		while (wait(NULL) > 0)
			;
	}
	CHECK(gone(5000));
	IS(counter("gpu_faults"), faults);
	return report("stress_test");
}
