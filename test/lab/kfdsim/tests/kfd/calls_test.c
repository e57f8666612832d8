// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The table of calls.h, and what does not fit into a table, made of whatever driver serves
 * /dev/kfd: kfdsim, or the real one on a machine without a GPU. The answers are those of
 * the table for both, so a difference between the two is a failure of one of them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfd/calls.h"
#include "check.h"

static int fd;

static void one(const struct call *c)
{
	union call_args args = c->in;
	int got = try_ioctl(fd, c->cmd, &args);

	check_at(__FILE__, __LINE__, got == c->want, "%s gave %d, wanted %d", c->what, got, c->want);
}

/* Arguments that cannot be read or written, although the call itself would do. */
static void test_pointers(void)
{
	IS(try_ioctl(fd, AMDKFD_IOC_GET_VERSION, NULL), -EFAULT);
	IS(try_ioctl(fd, AMDKFD_IOC_CREATE_EVENT, NULL), -EFAULT);
	IS(try_ioctl(fd, AMDKFD_IOC_SET_EVENT, (void *)KERNEL_POINTER), -EFAULT);
	IS(try_ioctl(fd, AMDKFD_IOC_CRIU_OP, NULL), -EFAULT);
}

static int map_errno(uint64_t offset, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, size);
	return 0;
}

static void test_mmap(void)
{
	const uint64_t no_gpu = (uint64_t)NO_GPU << 46;

	IS(map_errno(3ull << 62 | no_gpu, 8192), -ENODEV);
	IS(map_errno(1ull << 62 | no_gpu, 4096), -ENODEV);
	IS(map_errno(no_gpu, 4096), -ENODEV);
	IS(map_errno(0, 4096), -ENODEV);
	IS(map_errno(2ull << 62, 65536), -EINVAL);
	IS(map_errno(2ull << 62, 32768), 0);
	IS(map_errno(2ull << 62, 4096), 0);
}

/* The file is of use to who opened it, and CRIU_OP to who may checkpoint. */
static void test_caller(void)
{
	struct kfd_ioctl_criu_args unpause = { .op = KFD_CRIU_OP_UNPAUSE };
	struct kfd_ioctl_get_version_args version;
	int status;

	if (!fork()) {
		failures = 0;
		IS(try_ioctl(fd, AMDKFD_IOC_GET_VERSION, &version), -EBADF);
		IS(try_ioctl(fd, AMDKFD_IOC_CRIU_OP, &unpause), -EBADF);
		IS(try_ioctl(fd, _IO('K', 0xff), NULL), -ENOTTY);
		_exit(failures != 0);
	}
	wait(&status);
	CHECK(status == 0);
	if (!fork()) {
		failures = 0;
		fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
		MUST(fd >= 0 && !setuid(65534));
		IS(try_ioctl(fd, AMDKFD_IOC_GET_VERSION, &version), 0);
		IS(try_ioctl(fd, AMDKFD_IOC_CRIU_OP, &unpause), -EACCES);
		_exit(failures != 0);
	}
	wait(&status);
	CHECK(status == 0);
}

int main(void)
{
	struct kfd_ioctl_get_version_args version;

	setvbuf(stdout, NULL, _IONBF, 0);
	fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	MUST(fd >= 0);
	MUST(!ioctl(fd, AMDKFD_IOC_GET_VERSION, &version));
	printf("%s driver, KFD %u.%u\n",
	       access("/sys/kernel/debug/simgpu", F_OK) ? "the real" : "the simulated",
	       version.major_version, version.minor_version);
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		one(&calls[i]);
	test_pointers();
	test_mmap();
	test_caller();
	return report("calls_test");
}
