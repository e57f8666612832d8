// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * fuzz_test [CALLS [SEED]]: calls of /dev/kfd, the render node and mmap with arguments that
 * are random, or were right and are damaged, and RESTOREs of damaged dumps. Every answer
 * must be 0 or a plausible errno, the kernel must not complain (who runs this looks), and
 * nothing may be left afterwards. The same seed makes the same calls; what interrupts them,
 * a timer, does not come at the same points.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "fuzz.h"
#include "fuzz_good.h"
#include "kernel.h"

#define CALLS 100000
#define BATCH 400			/* calls of one process */
#define CLOSED 64			/* descriptors that may be closed in the middle */
#define RESTORES 8			/* damaged RESTOREs after a batch, each in its own process */

/*
 * A size that could be had is made small: see fuzz.h. So is a number of syncobjs, whichever it is:
 * the DRM core, which is not what is judged here, warns when it cannot have memory for that many.
 */
static void clamp(enum device device, unsigned long cmd, void *args)
{
	uint64_t *words = args, *size = cmd == DRM_IOCTL_AMDGPU_GEM_CREATE ? &words[0] :
					cmd == AMDKFD_IOC_ALLOC_MEMORY_OF_GPU ? &words[1] : NULL;

	if (size && *size > SMALL_BITS && *size < 1ull << 45)
		*size &= SMALL_BITS;
	for (size_t i = 0; device == ON_RENDER && i < NR_SYNCOBJ_COUNTS; i++)
		if (_IOC_NR(cmd) == syncobj_counts[i].nr)
			((uint32_t *)args)[syncobj_counts[i].at / 4] &= 0xffff;
}

static void random_call(void)
{
	static uint64_t args[4096 / 8 * 5];
	size_t i = roll(NR_COMMANDS);
	unsigned long cmd = commands[i].cmd;
	uint64_t before[MAX_ARGS / 8];
	void *ptr = args;

	memset(args, 0, MAX_ARGS);
	if (has_good[i] && roll(4)) {
		memcpy(args, good[i], _IOC_SIZE(cmd));
		for (uint32_t n = roll(3); n; n--)
			fuzz_mutate(args, _IOC_SIZE(cmd));
	} else {
		fuzz_fill(args, MAX_ARGS);
	}
	if (!roll(12)) {
		cmd = _IOC(roll(4), roll(8) ? (commands[i].device == ON_KFD ? 'K' : 'd') : roll(256),
			   roll(2) ? roll(256) : _IOC_NR(cmd), roll(8) ? roll(MAX_ARGS) : roll(16384));
		fuzz_fill(args, _IOC_SIZE(cmd));
	} else if (!roll(40) && commands[i].device == ON_KFD) {
		ptr = (void *)fuzz_word();
	} else if (!roll(40)) {
		/* What the kernel finds there is not clamped, so it finds nothing. */
		ptr = (void *)(fuzz_word() | 1ull << 63);
	}
	clamp(commands[i].device, cmd, args);
	memcpy(before, args, sizeof(before));
	if (!try_call(commands[i].device, cmd, ptr) && cmd == commands[i].cmd && ptr == args) {
		memcpy(good[i], before, _IOC_SIZE(cmd));
		has_good[i] = 1;
	}
}

/* Map something somewhere and have the kernel look at it: a fault is then an EFAULT. */
static void random_mmap(int pipe)
{
	uint64_t offset = roll(3) ? (uint64_t)roll(4) << 62 | (uint64_t)(roll(3) ? fuzz_gpu : roll(65536)) << 46 :
				    0x100000000ull + roll(8192) * 4096ull;
	size_t size = roll(2) ? 4096ull << roll(8) : roll(64) * 4096;
	char *p = mmap(NULL, size, roll(8), roll(4) ? MAP_SHARED : MAP_PRIVATE,
		       roll(2) ? gpu.kfd : gpu.render, offset + (roll(8) ? 0 : fuzz_word() & ~4095ull));

	result->calls++;
	if (p == MAP_FAILED)
		return;
	result->went_well++;
	if (write(pipe, p + roll(size), 1) < 0 && errno != EFAULT) {
		result->bad_errno++;
		printf("reading a mapping of offset %#llx: errno %d\n", (unsigned long long)offset,
		       errno);
	}
	if (roll(2))
		munmap(p, size);
}

static void on_alarm(int number)
{
	(void)number;
}

/* The beginning of every process of the fuzzer. Calls that wait are interrupted soon. */
static void begin(uint64_t seed)
{
	struct itimerval timer = { { 0, 3000 }, { 0, 3000 } };
	struct sigaction action = { .sa_handler = on_alarm };
	struct rlimit files = { 256, 256 };

	fuzz_seed(seed);
	MUST(mmap((void *)ARENA, ARENA_BYTES, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (void *)ARENA);
	for (uint64_t i = 0; i < ARENA_BYTES / 8; i++)
		((uint64_t *)ARENA)[i] = fuzz_word();
	MUST(!setrlimit(RLIMIT_NOFILE, &files));
	gpu = open_gpu();
	MUST(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &timer, NULL));
}

static void batch(uint64_t seed)
{
	int ends[2];

	begin(seed);
	MUST(!pipe2(ends, O_NONBLOCK | O_CLOEXEC));
	/* Beyond what is closed below: a write has to fail for its bytes alone. */
	for (int i = 0; i < 2; i++)
		MUST((ends[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, 3 + CLOSED)) >= 3 + CLOSED);
	set_up(roll(8));
	for (int i = 0; i < BATCH; i++) {
		if (roll(16))
			random_call();
		else
			random_mmap(ends[1]);
		if (!roll(32))
			lay_out_arena();
		else if (roll(2))
			fuzz_mutate((void *)ARENA, 1024);
		if (!roll(200))
			close(3 + roll(CLOSED));
	}
	exit(failures != 0);
}

/* A dump of a process that has one of everything, for RESTORE. */
static void dump(void)
{
	struct kfd_ioctl_criu_args *a = &result->args;

	begin(1);
	set_up(1);
	a->op = KFD_CRIU_OP_PROCESS_INFO;
	MUST(!ioctl(gpu.kfd, AMDKFD_IOC_CRIU_OP, a));
	MUST(a->num_objects >= 3); /* two queues and an event */
	MUST(a->num_bos <= 16 && a->priv_data_size <= sizeof(result->blob) && a->num_devices == 1);
	a->op = KFD_CRIU_OP_CHECKPOINT;
	a->devices = (uintptr_t)&result->device;
	a->bos = (uintptr_t)result->bos;
	a->priv_data = (uintptr_t)result->blob;
	MUST(!ioctl(gpu.kfd, AMDKFD_IOC_CRIU_OP, a));
	exit(failures != 0);
}

static void damaged_restore(uint64_t seed)
{
	struct kfd_ioctl_criu_args a = result->args;

	begin(seed);
	a.op = KFD_CRIU_OP_RESTORE;
	/* The arena takes a copy: the next process starts from the whole dump again. */
	a.devices = ARENA + 0x1000;
	a.bos = ARENA + 0x2000;
	a.priv_data = ARENA + 0x10000;
	result->device.drm_fd = gpu.render;
	memcpy((void *)a.devices, &result->device, sizeof(result->device));
	memcpy((void *)a.bos, result->bos, sizeof(result->bos));
	memcpy((void *)a.priv_data, result->blob, sizeof(result->blob));
	for (uint32_t n = roll(4); n; n--) {
		switch (roll(4)) {
		case 0:
			fuzz_mutate(&a, sizeof(a));
			break;
		case 1:
			fuzz_mutate((void *)(ARENA + 0x2000), a.num_bos % 16 * 48 + 8);
			break;
		default:
			fuzz_mutate((void *)(ARENA + 0x10000), result->args.priv_data_size);
		}
	}
	try_call(ON_KFD, AMDKFD_IOC_CRIU_OP, &a);
	a.op = KFD_CRIU_OP_RESUME;
	a.pid = roll(8) ? (uint32_t)getpid() : roll(64);
	try_call(ON_KFD, AMDKFD_IOC_CRIU_OP, &a);
	for (int i = 0; i < 10; i++)
		random_call();
	exit(failures != 0);
}

static int in_child(void (*run)(uint64_t seed), uint64_t seed)
{
	int status;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid) {
		failures = 0;
		run(seed);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	check_at(__FILE__, __LINE__, !status, "a process of seed %#llx ended with status %#x",
		 (unsigned long long)seed, status);
	return status;
}

/* One simulated kernel after the other, with all it can have from 7.x on. */
static void be_linux(unsigned int kernel)
{
	int later = kernels[kernel].svm;

	behave_as(&kernels[kernel]);
	set_parameter("gem_list_handles", later ? "working" : "absent");
	set_parameter("gem_mapping_info", later ? "working" : "absent");
	set_parameter("gem_change_handle", later ? "working" : "absent");
}

static void run_dump(uint64_t seed)
{
	(void)seed;
	dump();
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : CALLS;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : now_ns();
	unsigned long n = 0, rounds = 0;

	setvbuf(stdout, NULL, _IONBF, 0);
	printf("fuzz_test: %ld calls, seed %#llx\n", calls, (unsigned long long)seed);
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(calls > 0 && result != MAP_FAILED);
	fuzz_gpu = gpu_id();
	MUST(!in_child(run_dump, 0));
	while (result->calls < calls && !failures) {
		be_linux(rounds++ % KERNELS);
		in_child(batch, seed + n++);
		for (int i = 0; i < RESTORES; i++)
			in_child(damaged_restore, seed + n++);
	}
	be_linux(KERNEL_OF_GUEST);
	CHECK(result->bad_errno == 0);
	/* Arguments that are always refused would test nothing. */
	CHECK(result->went_well > result->calls / 20);
	CHECK(gone(20000));
	printf("fuzz_test: %ld calls in %lu processes, %ld of them went well\n", result->calls, n,
	       result->went_well);
	return report("fuzz_test");
}
