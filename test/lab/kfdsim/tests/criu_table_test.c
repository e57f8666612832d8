// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The errors of CRIU_OP and their order, for each kernel that can be simulated. A call is given
 * several faults at once; which of them it names shows what is looked at first.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/capability.h>

#include "blob.h"

#define MIB (1024ull * 1024)
#define VRAM_VA 0x200000000ull
#define QUEUE_VA 0x210000000ull
#define PAGE_VA 0x220000000ull
#define BAD 4096	/* an address nothing is mapped at */

/* A good image: four BOs, two queues, two events. */
static void good(struct blob *b)
{
	blob_begin(b, gpu_id());
	blob_bo(b, VRAM_VA, MIB, VRAM | WRITABLE, 0, 0);
	blob_bo(b, QUEUE_VA, 2 * QUEUE_BYTES, GTT | WRITABLE, 1, 0);
	blob_bo(b, PAGE_VA, 32768, GTT | WRITABLE, 2, 0);
	blob_bo(b, 0x240000000, 8192, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | WRITABLE, 5, 0);
	blob_queue(b, 1, QUEUE_VA, 0, 256, BLOB_MQD_SDMA, 0);
	blob_queue(b, 0, QUEUE_VA + QUEUE_BYTES, 1, 0, BLOB_MQD_COMPUTE, 4096);
	blob_event(b, KFD_IOC_EVENT_SIGNAL, 1, (uint64_t)gpu_id() << 32 | 2);
	blob_event(b, KFD_IOC_EVENT_MEMORY, 0x40000000, 0);
}

#define BO(n) (16 + (n) * BLOB_BO_BYTES)
#define SDMA BO(4)
#define COMPUTE (SDMA + BLOB_QUEUE_BYTES + BLOB_MQD_SDMA)
#define EVENT (COMPUTE + BLOB_QUEUE_BYTES + BLOB_MQD_COMPUTE + 4096)

static struct blob blob;
static struct kfd_ioctl_criu_args args;
static struct gpu gpu;

/* What can be wrong with a RESTORE, roughly in the order it is looked at. */
static void no_devices(void) { args.devices = 0; }
static void zero_devices(void) { args.num_devices = 0; }
static void no_bos(void) { args.bos = 0; }
static void no_blob(void) { args.priv_data = 0; }
static void empty_blob(void) { args.priv_data_size = 0; }
static void short_blob(void) { args.priv_data_size = 4; }
static void bad_blob(void) { args.priv_data = BAD; }
static void version(void) { put32(blob.data, 2); }
static void xnack(void) { put32(blob.data + 4, 1); }
static void two_devices(void) { args.num_devices = 2; }
static void blob_of_a_process(void) { args.priv_data_size = 8; }
static void bad_devices(void) { args.devices = BAD; }
static void user_id_0(void) { blob.device.user_gpu_id = 0; }
static void unknown_gpu(void) { blob.device.actual_gpu_id ^= 1; }
static void no_drm_fd(void) { blob.device.drm_fd = 999; }
static void wrong_drm_fd(void) { blob.device.drm_fd = gpu.kfd; }
static void has_vm(void) { MUST(!acquire(&gpu, gpu.render)); }
static void blob_without_bos(void) { args.priv_data_size = 100; }
static void bad_bos(void) { args.bos = BAD; }
static void bo_gpu(void) { blob.bos[0].gpu_id ^= 1; }
static void bo_handle(void) { put32(blob.data + BO(0) + 8, 1u << 31); }
static void bo_handle_twice(void) { put32(blob.data + BO(1) + 8, 0); }
static void bo_type(void) { blob.bos[0].alloc_flags = WRITABLE; }
static void bo_too_large(void) { blob.bos[0].size = 1ull << 40; }
static void bo_address_twice(void) { blob.bos[1].addr = VRAM_VA; }
static void bo_doorbell_size(void) { blob.bos[3].size = 4096; }
static void bo_mapped(void) { put32(blob.data + BO(0) + 12, 1); }
static void object_type(void) { put32(blob.data + SDMA, 3); }
static void ends_in_type(void) { args.priv_data_size = SDMA + 2; }
static void ends_in_queue(void) { args.priv_data_size = SDMA + 50; }
static void ends_in_mqd(void) { args.priv_data_size = SDMA + BLOB_QUEUE_BYTES + 50; }
static void mqd_too_long(void) { put32(blob.data + SDMA + 112, 1u << 30); }
static void queue_gpu(void) { put32(blob.data + SDMA + 64, 1); }
static void queue_type(void) { put32(blob.data + SDMA + 68, 2); }
static void queue_id(void) { put32(blob.data + SDMA + 76, 5000); }
static void queue_id_twice(void) { put32(blob.data + COMPUTE + 76, 0); }
static void sdma_id(void) { put32(blob.data + SDMA + 96, 4000); }
static void sdma_doorbell(void) { put32(blob.data + SDMA + 88, 0); }
static void event_page(void) { put64(blob.data + EVENT + 8, 77); }
static void event_type(void) { put32(blob.data + EVENT + 24, 4); }
static void event_id(void) { put32(blob.data + EVENT + 16, 4096); }
static void event_twice(void) { put32(blob.data + EVENT + 64 + 16, 1); }
static void no_event_page(void) { put64(blob.data + EVENT + 8, 0); }
static void trailing(void) { args.priv_data_size++; }
static void one_object_less(void) { args.num_objects--; }
static void one_object_more(void) { args.num_objects++; }

struct row {
	int want[2];			/* 6.12, 7.3 */
	void (*faults[3])(void);
};

#define BOTH(errno) { errno, errno }

static const struct row restores[] = {
	{ BOTH(0), {} },
	{ BOTH(-EINVAL), { no_devices, bad_blob } },
	{ BOTH(-EINVAL), { zero_devices, bad_blob } },
	{ BOTH(-EINVAL), { no_bos, bad_blob } },
	{ BOTH(-EINVAL), { no_blob, bad_devices } },
	{ BOTH(-EINVAL), { empty_blob, bad_blob } },
	{ BOTH(-EINVAL), { short_blob, bad_blob } },
	{ BOTH(-EFAULT), { bad_blob, two_devices } },
	{ BOTH(-EINVAL), { version, xnack } },
	{ BOTH(-EPERM), { xnack, two_devices } },
	{ BOTH(-EINVAL), { two_devices, bad_devices } },
	{ BOTH(-EINVAL), { blob_of_a_process, bad_devices } },
	{ BOTH(-EFAULT), { bad_devices, bo_gpu } },
	{ BOTH(-EINVAL), { user_id_0, bad_bos } },
	{ BOTH(-EINVAL), { unknown_gpu, bad_bos } },
	{ BOTH(-EINVAL), { no_drm_fd, bad_bos } },
	{ BOTH(-EINVAL), { wrong_drm_fd, bad_bos } },
	{ BOTH(-EINVAL), { has_vm, bad_bos } },
	{ BOTH(-EINVAL), { blob_without_bos, bad_bos } },
	{ BOTH(-EFAULT), { bad_bos, queue_gpu } },
	{ BOTH(-ENODEV), { bo_gpu, bo_handle, bo_type } },
	{ BOTH(-EINVAL), { bo_handle, bo_too_large } },
	{ BOTH(-EINVAL), { bo_type, bo_handle_twice } },
	{ BOTH(-ENOMEM), { bo_too_large, bo_mapped } },
	{ BOTH(-EINVAL), { bo_mapped, bo_handle_twice } },
	{ BOTH(-ENOMEM), { bo_handle_twice, bo_doorbell_size } },
	{ BOTH(-EINVAL), { bo_address_twice, sdma_id } },
	{ BOTH(-EINVAL), { bo_doorbell_size, queue_id_twice } },
	{ BOTH(-EINVAL), { object_type, queue_id_twice } },
	{ BOTH(-EINVAL), { ends_in_type } },
	{ BOTH(-EINVAL), { ends_in_queue } },
	{ BOTH(-EINVAL), { ends_in_mqd } },
	{ BOTH(-EINVAL), { mqd_too_long } },
	{ BOTH(-EINVAL), { queue_gpu, queue_id_twice } },
	{ BOTH(-EINVAL), { queue_type, queue_id_twice } },
	{ BOTH(-EINVAL), { queue_id, queue_id_twice } },
	{ BOTH(-EINVAL), { sdma_id, queue_id_twice } },
	{ BOTH(-EINVAL), { sdma_doorbell, queue_id_twice } },
	{ BOTH(-ENOSPC), { queue_id_twice, event_type } },
	{ BOTH(-EINVAL), { event_page, event_twice } },
	{ BOTH(-EINVAL), { event_type, event_twice } },
	{ BOTH(-EINVAL), { event_id, event_twice } },
	{ BOTH(-ENOSPC), { event_twice, trailing } },
	/* The kernel's own event page is gone in 7.3. */
	{ { 0, -ENOMEM }, { no_event_page } },
	{ BOTH(-EINVAL), { trailing } },
	{ BOTH(-EINVAL), { one_object_less } },
	{ BOTH(-EINVAL), { one_object_more } },
};

static int highest_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

/* One row in a process of its own, as a RESTORE that failed leaves traces. Status: 0 or what is wrong. */
static int try_restore(const struct row *row, int kernel)
{
	int fd, ret, i;

	gpu = open_gpu();
	good(&blob);
	args = blob_args(&blob);
	blob.device.drm_fd = gpu.render;
	for (i = 0; i < 3 && row->faults[i]; i++)
		row->faults[i]();
	fd = highest_fd();
	ret = criu_op(gpu.kfd, KFD_CRIU_OP_RESTORE, &args);
	if (ret != row->want[kernel])
		return ret ? -ret : 255;
	return ret && highest_fd() != fd ? 254 : 0;
}

static int in_child(int (*run)(const struct row *row, int kernel), const struct row *row, int kernel)
{
	int status;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid) {
		failures = 0;
		status = run(row, kernel);
		fflush(stdout);
		_exit(failures ? 253 : status);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 252;
}

static void test_restores(int kernel)
{
	for (size_t i = 0; i < sizeof(restores) / sizeof(*restores); i++) {
		int got = in_child(try_restore, &restores[i], kernel);

		check_at(__FILE__, __LINE__, !got, "%s, RESTORE %zu: wanted %d, got %d (255: success, 254: "
			 "a descriptor stayed open)", kernels[kernel], i, -restores[i].want[kernel], got);
	}
}

/* What CHECKPOINT gets wrong; the process holds what good() describes. */
static void null_devices(void) { args.devices = 0; }
static void null_bos(void) { args.bos = 0; }
static void null_blob(void) { args.priv_data = 0; }
static void unpause(void) { MUST(!criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0)); }
static void other_devices(void) { args.num_devices++; }
static void other_bos(void) { args.num_bos--; }
static void other_objects(void) { args.num_objects++; }
static void other_size(void) { args.priv_data_size--; }
static void racing_event(void)
{
	uint32_t id;

	MUST(!create_event(&gpu, KFD_IOC_EVENT_SIGNAL, 0, 0, &id));
}
static void no_cwsr(void) { set_parameter("cwsr_enable", "0"); }

static const struct row checkpoints[] = {
	{ BOTH(0), {} },
	{ BOTH(-EINVAL), { null_devices, bad_blob } },
	{ BOTH(-EINVAL), { null_bos, bad_blob } },
	{ BOTH(-EINVAL), { null_blob, bad_devices } },
	{ BOTH(-EINVAL), { unpause, bad_blob } },
	{ BOTH(-EINVAL), { other_devices, bad_blob } },
	{ BOTH(-EINVAL), { other_bos, bad_blob } },
	{ BOTH(-EINVAL), { other_objects, bad_blob } },
	{ BOTH(-EINVAL), { other_size, bad_blob } },
	{ BOTH(-EINVAL), { racing_event, bad_blob } },
	{ BOTH(-EFAULT), { bad_blob, no_cwsr } },
	{ BOTH(-EFAULT), { bad_devices, no_cwsr } },
	{ BOTH(-EINVAL), { no_cwsr, bad_bos } },
	{ BOTH(-EFAULT), { bad_bos } },
};

/* A process dumps itself here: the owner may, as well as its tracer. */
static int try_checkpoint(const struct row *row, int kernel)
{
	int fd, ret, i;

	gpu = open_gpu();
	good(&blob);
	MUST(!blob_restore(&blob, &gpu));
	MUST(!criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()));
	memset(&args, 0, sizeof(args));
	MUST(!criu_op(gpu.kfd, KFD_CRIU_OP_PROCESS_INFO, &args));
	args.devices = (uintptr_t)&blob.device;
	args.bos = (uintptr_t)blob.bos;
	args.priv_data = (uintptr_t)blob.data;
	for (i = 0; i < 3 && row->faults[i]; i++)
		row->faults[i]();
	fd = highest_fd();
	ret = criu_op(gpu.kfd, KFD_CRIU_OP_CHECKPOINT, &args);
	set_parameter("cwsr_enable", "1");
	if (ret != row->want[kernel])
		return ret ? -ret : 255;
	return ret && highest_fd() != fd ? 254 : 0;
}

static void test_checkpoints(int kernel)
{
	for (size_t i = 0; i < sizeof(checkpoints) / sizeof(*checkpoints); i++) {
		/* The one before held the same SDMA queue. */
		CHECK(gone(5000));

		int got = in_child(try_checkpoint, &checkpoints[i], kernel);

		check_at(__FILE__, __LINE__, !got, "%s, CHECKPOINT %zu: wanted %d, got %d",
			 kernels[kernel], i, -checkpoints[i].want[kernel], got);
	}
}

/* Without the capabilities even of a child of the initial user namespace's root. */
static int without_rights(const struct row *row, int kernel)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};
	uint32_t op;

	(void)row;
	(void)kernel;
	gpu = open_gpu();
	MUST(!syscall(SYS_capset, &header, data));
	for (op = 0; op <= KFD_CRIU_OP_RESUME; op++)
		IS(criu_simple(gpu.kfd, op, getpid()), -EACCES);
	/* A number no kernel has comes before everything else. */
	IS(try_ioctl(gpu.kfd, _IOWR('K', 0xf0, struct kfd_ioctl_criu_args), &args), -ENOTTY);
	return 0;
}

/* A child holds its parent's file: wrong process, whatever it may otherwise do. */
static int wrong_process(const struct row *row, int kernel)
{
	int status;
	pid_t pid;

	(void)row;
	(void)kernel;
	gpu = open_gpu();
	pid = fork();
	if (!pid) {
		struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
		struct __user_cap_data_struct data[2] = {};

		failures = 0;
		IS(try_ioctl(gpu.kfd, AMDKFD_IOC_CRIU_OP, (void *)BAD), -EBADF);
		MUST(!syscall(SYS_capset, &header, data));
		IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), -EBADF);
		_exit(failures);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	IS(status, 0);
	IS(try_ioctl(gpu.kfd, AMDKFD_IOC_CRIU_OP, (void *)BAD), -EFAULT);
	return 0;
}

/* The small operations, in every state. */
static int states(const struct row *row, int kernel)
{
	struct kfd_ioctl_criu_args info = {};
	struct blob empty;

	(void)row;
	gpu = open_gpu();
	IS(criu_simple(gpu.kfd, 5, 0), -EINVAL);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, 0x7ffffff), -ESRCH);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getppid()), -ESRCH);
	IS(criu_op(gpu.kfd, KFD_CRIU_OP_PROCESS_INFO, &info), 0);
	CHECK(info.num_bos == 0 && info.num_objects == 0 && info.priv_data_size == 16);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_PROCESS_INFO, 0), 0);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
	/* 6.12 counts pauses and takes back one, for ever; later ones pause once. */
	IS(counter("evicted"), kernel ? 0 : 1);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
	blob_begin(&empty, gpu.id);
	IS(blob_restore(&empty, &gpu), 0);
	IS(blob_restore(&empty, &gpu), -EINVAL);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()), 0);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()), -EINVAL);
	return 0;
}

static void failed_restore(void (*fault)(void), int want)
{
	gpu = open_gpu();
	good(&blob);
	args = blob_args(&blob);
	blob.device.drm_fd = gpu.render;
	fault();
	IS(criu_op(gpu.kfd, KFD_CRIU_OP_RESTORE, &args), want);
}

/* A RESTORE that fails before its BOs leaves nothing to resume, one that fails later does. */
static int resume_nothing(const struct row *row, int kernel)
{
	(void)row;
	(void)kernel;
	failed_restore(blob_without_bos, -EINVAL);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()), -EINVAL);
	return 0;
}

static int resume_part(const struct row *row, int kernel)
{
	(void)row;
	(void)kernel;
	failed_restore(bad_bos, -EFAULT);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()), 0);
	return 0;
}

/* The hardware queue of SDMA belongs to one process at a time. */
static int sdma_taken(const struct row *row, int kernel)
{
	static const struct row busy = { BOTH(-EBUSY), { queue_id_twice } };

	(void)row;
	gpu = open_gpu();
	good(&blob);
	IS(blob_restore(&blob, &gpu), 0);
	IS(in_child(try_restore, &busy, kernel), 0);
	return 0;
}

static void one(int (*run)(const struct row *row, int kernel), const char *what, int kernel)
{
	int got = in_child(run, NULL, kernel);

	check_at(__FILE__, __LINE__, !got, "%s, %s: %d", kernels[kernel], what, got);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int kernel = 0; kernel < 2; kernel++) {
		set_parameter("behaves_as", kernels[kernel]);
		one(without_rights, "rights", kernel);
		one(wrong_process, "wrong process", kernel);
		one(states, "states", kernel);
		test_restores(kernel);
		one(resume_nothing, "RESUME of nothing", kernel);
		one(resume_part, "RESUME of a part", kernel);
		CHECK(gone(5000));
		one(sdma_taken, "SDMA queue taken", kernel);
		test_checkpoints(kernel);
		CHECK(gone(5000));
	}
	set_parameter("behaves_as", "6.12");
	return report("criu_table_test");
}
