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

#include "engines/aql.h"
#include "fuzz.h"
#include "fuzz_commands.h"

#define CALLS 100000
#define BATCH 400			/* calls of one process */
#define MAX_ARGS 256
#define QUEUE_VA (FUZZ_VA + 32 * FUZZ_VA_STEP)
#define CLOSED 64			/* descriptors that may be closed in the middle */
#define RESTORES 8			/* damaged RESTOREs after a batch, each in its own process */

/* What the processes tell the one that counts. */
static struct result {
	long calls, went_well, bad_errno;
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_device_bucket device;
	struct kfd_criu_bo_bucket bos[16];
	uint8_t blob[65536];
} *result;

static uint64_t good[NR_COMMANDS][MAX_ARGS / 8];	/* arguments of the last call that went well */
static int has_good[NR_COMMANDS];
static struct gpu gpu;
static uint32_t *ib;				/* CPU view of a buffer packets are executed from */

static int try_call(enum device device, unsigned long cmd, void *args)
{
	int ret = ioctl(device == ON_KFD ? gpu.kfd : gpu.render, cmd, args);

	result->calls++;
	if (!ret)
		result->went_well++;
	else if (ret > 0 || ((errno < 1 || errno > EHWPOISON) && errno != 524)) {
		result->bad_errno++;
		printf("%s call %#lx gave %d, errno %d\n", device == ON_KFD ? "kfd" : "render", cmd,
		       ret, errno);
	}
	return ret;
}

/* A call that is to go well, to be damaged later; args keeps the answer. */
static void teach(unsigned long cmd, void *args)
{
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (commands[i].cmd != cmd)
			continue;
		memcpy(good[i], args, _IOC_SIZE(cmd));
		has_good[i] = !try_call(commands[i].device, cmd, args);
	}
}

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

/* What the arguments taught below point to. */
static void lay_out_arena(void)
{
	struct drm_amdgpu_cs_chunk chunk = { AMDGPU_CHUNK_ID_IB, sizeof(struct drm_amdgpu_cs_chunk_ib) / 4,
					     ARENA + 128 };
	struct drm_amdgpu_cs_chunk_ib job = { .va_start = FUZZ_VA + FUZZ_VA_STEP, .ib_bytes = 256,
					      .ip_type = AMDGPU_HW_IP_DMA };
	struct drm_amdgpu_bo_list_entry entry = { .bo_handle = 1 };
	struct kfd_event_data event = { .event_id = 1 };
	struct drm_amdgpu_fence fence = { .ctx_id = 1, .ip_type = AMDGPU_HW_IP_DMA, .seq_no = 1 };

	*(uint64_t *)ARENA = ARENA + 64;
	memcpy((void *)(ARENA + 64), &chunk, sizeof(chunk));
	memcpy((void *)(ARENA + 128), &job, sizeof(job));
	memcpy((void *)(ARENA + 256), &entry, sizeof(entry));
	memcpy((void *)(ARENA + 512), &event, sizeof(event));
	*(uint32_t *)(ARENA + 640) = fuzz_gpu;
	memcpy((void *)(ARENA + 704), &fence, sizeof(fence));
	for (int i = 0; i < 1024 && ib; i++)
		ib[i] = roll(3) ? fuzz_word() : roll(20) | roll(3) << 8;
	if (ib) {
		ib[0] = 1;
		ib[1] = roll(65536);
		ib[2] = ib[4] = ib[6] = 0;
		ib[3] = FUZZ_VA + roll(FUZZ_VA_STEP);
		ib[5] = ARENA + roll(ARENA_BYTES);
	}
}

/* An SDMA queue and a compute queue, of the same memory: a full ring of packets. */
static void teach_queues(void)
{
	struct kfd_ioctl_create_queue_args queue = aql_args(&gpu, QUEUE_VA);
	struct memory ring, pointers, save;

	if (allocate(&gpu, &ring, QUEUE_VA, queue.ring_size, GTT | WRITABLE, 0) || map_gpu(&gpu, &ring) ||
	    allocate(&gpu, &pointers, QUEUE_VA + AQL_RPTR, PAGE_BYTES, GTT | WRITABLE, 0) ||
	    map_gpu(&gpu, &pointers) ||
	    allocate(&gpu, &save, QUEUE_VA + AQL_SAVE, save_area_bytes(&gpu), GTT | WRITABLE, 0) ||
	    map_gpu(&gpu, &save))
		return;
	map_cpu(&gpu, &ring);
	map_cpu(&gpu, &pointers);
	memcpy(ring.cpu, ib, queue.ring_size);
	queue.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
	teach(AMDKFD_IOC_CREATE_QUEUE, &queue);
	queue.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	teach(AMDKFD_IOC_CREATE_QUEUE, &queue);
	*(uint64_t *)((char *)pointers.cpu + AQL_WPTR - AQL_RPTR) = queue.ring_size;
}

static void set_up(int with_vm)
{
	struct kfd_ioctl_create_event_args event = {};
	struct kfd_ioctl_wait_events_args wait_events = { .events_ptr = ARENA + 512, .num_events = 1 };
	struct kfd_ioctl_acquire_vm_args acquire = { gpu.render, fuzz_gpu };
	union drm_amdgpu_gem_create create = { .in = { .bo_size = 65536,
						       .domains = AMDGPU_GEM_DOMAIN_GTT } };
	struct drm_amdgpu_gem_va va = { .handle = 1, .operation = AMDGPU_VA_OP_MAP, .flags = 6,
					.va_address = FUZZ_VA + 8 * FUZZ_VA_STEP, .map_size = 65536 };
	struct drm_amdgpu_gem_userptr user = { .addr = ARENA, .size = ARENA_BYTES, .flags = 13 };
	struct drm_prime_handle prime = { .handle = 1, .flags = O_CLOEXEC | O_RDWR };
	union drm_amdgpu_ctx ctx = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
	union drm_amdgpu_bo_list list = { .in = { .operation = AMDGPU_BO_LIST_OP_CREATE,
		.bo_number = 1, .bo_info_size = 8, .bo_info_ptr = ARENA + 256 } };
	union drm_amdgpu_cs cs = { .in = { .ctx_id = 1, .num_chunks = 1, .chunks = ARENA } };
	union drm_amdgpu_wait_cs wait_cs = { .in = { .handle = 1, .ip_type = AMDGPU_HW_IP_DMA,
						     .ctx_id = 1 } };
	union drm_amdgpu_wait_fences fences = { .in = { .fences = ARENA + 704, .fence_count = 1 } };
	static const uint32_t types[] = { VRAM, GTT, USERPTR };

	if (with_vm)
		teach(AMDKFD_IOC_ACQUIRE_VM, &acquire);
	for (int i = 0; i < 3; i++) {
		uint64_t at = i == 2 ? ARENA : FUZZ_VA + i * FUZZ_VA_STEP;
		uint64_t size = i == 2 ? ARENA_BYTES : FUZZ_VA_STEP;
		struct kfd_ioctl_alloc_memory_of_gpu_args a = { .va_addr = at, .size = size,
			.mmap_offset = i == 2 ? at : 0, .gpu_id = fuzz_gpu, .flags = types[i] | WRITABLE };
		struct kfd_ioctl_map_memory_to_gpu_args m = { .n_devices = 1,
							      .device_ids_array_ptr = ARENA + 640 };
		struct kfd_ioctl_export_dmabuf_args e = { .flags = O_CLOEXEC };
		void *p;

		teach(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a);
		m.handle = e.handle = a.handle;
		teach(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &m);
		if (i < 2)
			teach(AMDKFD_IOC_EXPORT_DMABUF, &e);
		p = i == 1 ? mmap((void *)at, size, PROT_READ | PROT_WRITE, MAP_SHARED, gpu.render,
				  a.mmap_offset) : MAP_FAILED;
		if (p != MAP_FAILED)
			ib = p;
	}
	lay_out_arena();
	teach(AMDKFD_IOC_CREATE_EVENT, &event);
	teach(AMDKFD_IOC_WAIT_EVENTS, &wait_events);
	if (ib)
		teach_queues();
	teach(DRM_IOCTL_AMDGPU_GEM_CREATE, &create);
	teach(DRM_IOCTL_AMDGPU_GEM_VA, &va);
	teach(DRM_IOCTL_AMDGPU_GEM_USERPTR, &user);
	teach(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime);
	teach(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);
	teach(DRM_IOCTL_AMDGPU_CTX, &ctx);
	teach(DRM_IOCTL_AMDGPU_BO_LIST, &list);
	teach(DRM_IOCTL_AMDGPU_CS, &cs);
	teach(DRM_IOCTL_AMDGPU_WAIT_CS, &wait_cs);
	teach(DRM_IOCTL_AMDGPU_WAIT_FENCES, &fences);
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

/* The simulated kernel, without and with all it can have: processes alternate. */
static void be_linux(int later)
{
	set_parameter("behaves_as", later ? "7.3" : "6.12");
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
		be_linux(rounds++ % 2);
		in_child(batch, seed + n++);
		for (int i = 0; i < RESTORES; i++)
			in_child(damaged_restore, seed + n++);
	}
	be_linux(0);
	CHECK(result->bad_errno == 0);
	/* Arguments that are always refused would test nothing. */
	CHECK(result->went_well > result->calls / 20);
	CHECK(gone(20000));
	printf("fuzz_test: %ld calls in %lu processes, %ld of them went well\n", result->calls, n,
	       result->went_well);
	return report("fuzz_test");
}
