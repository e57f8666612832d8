// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The errors of CRIU_OP and their order, for each kernel that can be simulated. A call is given
 * several faults at once; which of them it names shows what is looked at first.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/capability.h>

#include "criu/criu_faults.h"

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
	{ BOTH(0), { xnack } },
	{ BOTH(-EINVAL), { xnack, two_devices } },
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
};

/* What is found wrong after the BOs were made. */
static const struct row late_restores[] = {
	{ BOTH(-EINVAL), { object_type, queue_id_twice } },
	{ BOTH(-EINVAL), { ends_in_type } },
	{ BOTH(-EINVAL), { ends_in_queue } },
	{ BOTH(-EINVAL), { ends_in_mqd } },
	{ BOTH(-EINVAL), { mqd_too_long } },
	{ BOTH(-EINVAL), { queue_gpu, queue_id_twice } },
	{ BOTH(-EINVAL), { queue_type, queue_id_twice } },
	{ BOTH(-EINVAL), { queue_id, queue_id_twice } },
	/* There are no engines of this kind, so none is free: found before the number. */
	{ BOTH(-ENOMEM), { xgmi_queue, sdma_id, queue_id_twice } },
	{ BOTH(-EINVAL), { sdma_id, queue_id_twice } },
	{ BOTH(-EINVAL), { sdma_doorbell, queue_id_twice } },
	{ BOTH(-EINVAL), { queue_ring, queue_id_twice } },
	{ BOTH(-EINVAL), { save_area, queue_id_twice } },
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

/* For a process that finds the SDMA queue in use. */
static const struct row busy = { BOTH(-EBUSY), { queue_id_twice } };

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
	if (ret != row->want[kernel])
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
		int got = in_child(try_restore, &rows[i], kernel);

		check_at(__FILE__, __LINE__, !got, "%s, %s RESTORE %zu: wanted %d, got %d (255: success, 254: "
			 "descriptors are not as they should)", kernels[kernel], when, i, -rows[i].want[kernel], got);
	}
}

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
	if (on_kfdsim())
		set_parameter("cwsr_enable", "1");
	if (ret != row->want[kernel])
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
	(void)kernel;
	gpu = open_gpu();
	IS(criu_simple(gpu.kfd, 5, 0), -EINVAL);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, 0x7ffffff), -ESRCH);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getppid()), -ESRCH);
	IS(criu_op(gpu.kfd, KFD_CRIU_OP_PROCESS_INFO, &info), 0);
	CHECK(info.num_bos == 0 && info.num_objects == 0 && info.priv_data_size == 16);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_PROCESS_INFO, 0), 0);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
	/* However often it was paused, it is once. */
	IS(counter("evicted"), 0);
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

	check_at(__FILE__, __LINE__, !got, "%s, %s: %d", kernels[kernel], what, got);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int kernel = 0; kernel < 2; kernel++) {
		if (!behave_as(kernel))
			break;
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
	behave_as(0);
	return report("criu_table_test");
}
