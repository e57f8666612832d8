// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The errors of CRIU_OP and their order, for each kernel that can be simulated. A call is given
 * several faults at once; which of them it names shows what is looked at first.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/capability.h>

#include "criu/criu_rows.h"

static int wanted(const struct row *row, int kernel)
{
	return row->on & BIT(kernel) ? row->other : row->want;
}

static int highest_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

/* For a process that finds the SDMA queue in use. */
static const struct row busy = { .want = -EBUSY, .faults = { queue_id_twice } };

static int is_late(const struct row *row)
{
	return row == &busy || (row >= late_restores && row < late_restores + sizeof(late_restores) / sizeof(*row));
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
	if (ret != wanted(row, kernel))
		return ret ? -ret : 255;
	/* Those of BOs are there once these are, whatever comes after (kfd_chardev.c:criu_restore_bos @ 6.12.117). */
	if (is_late(row))
		return highest_fd() == fd ? 254 : 0;
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

static void test_restores(const struct row *rows, size_t n, const char *when, int kernel)
{
	for (size_t i = 0; i < n; i++) {
		int got;

		/* The queues of the process before may outlive it, and with them what they occupy. */
		CHECK(gone(5000));
		got = in_child(try_restore, &rows[i], kernel);
		check_at(__FILE__, __LINE__, !got, "%s, %s RESTORE %zu: wanted %d, got %d (255: success, 254: "
			 "descriptors are not as they should)", kernels[kernel].name, when, i, -wanted(&rows[i], kernel), got);
	}
}

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
	if (on_kfdsim())
		set_parameter("cwsr_enable", "1");
	if (ret != wanted(row, kernel))
		return ret ? -ret : 255;
	return ret && highest_fd() != fd ? 254 : 0;
}

static void test_checkpoints(int kernel)
{
	for (size_t i = 0; i < sizeof(checkpoints) / sizeof(*checkpoints); i++) {
		if (checkpoints[i].faults[1] == no_cwsr || checkpoints[i].faults[0] == no_cwsr)
			if (skip_on_real("cwsr_enable cannot be changed there"))
				continue;
		/* The one before held the same SDMA queue. */
		CHECK(gone(5000));

		int got = in_child(try_checkpoint, &checkpoints[i], kernel);

		check_at(__FILE__, __LINE__, !got, "%s, CHECKPOINT %zu: wanted %d, got %d",
			 kernels[kernel].name, i, -wanted(&checkpoints[i], kernel), got);
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
	/* Where it was paused twice it stays so. */
	IS(counter("evicted"), kernels[kernel].pauses_again);
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

	check_at(__FILE__, __LINE__, !got, "%s, %s: %d", kernels[kernel].name, what, got);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int kernel = 0; kernel < KERNELS; kernel++) {
		if (!behave_as(&kernels[kernel]))
			continue;
		one(without_rights, "rights", kernel);
		one(wrong_process, "wrong process", kernel);
		one(states, "states", kernel);
		test_restores(restores, sizeof(restores) / sizeof(*restores), "early", kernel);
		test_restores(late_restores, sizeof(late_restores) / sizeof(*late_restores), "late", kernel);
		one(resume_nothing, "RESUME of nothing", kernel);
		one(resume_part, "RESUME of a part", kernel);
		CHECK(gone(5000));
		one(sdma_taken, "SDMA queue taken", kernel);
		test_checkpoints(kernel);
		CHECK(gone(5000));
	}
	behave_as(&kernels[KERNEL_OF_GUEST]);
	return report("criu_table_test");
}
