// SPDX-License-Identifier: GPL-2.0 OR MIT
/* CRIU_OP that fails in the middle, by rules of debugfs: what is there afterwards, and what can be done about it. */
#define _GNU_SOURCE
#include "child.h"
#include "criu/good_image.h"

static void rule(const char *line)
{
	FILE *f = fopen("/sys/kernel/debug/simgpu/faults", "w");

	MUST(f && fprintf(f, "%s", line) > 0 && !fclose(f));
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int process_info(struct kfd_ioctl_criu_args *a)
{
	memset(a, 0, sizeof(*a));
	return criu_op(gpu.kfd, KFD_CRIU_OP_PROCESS_INFO, a);
}

static int checkpoint(struct kfd_ioctl_criu_args *a)
{
	a->devices = (uintptr_t)&blob.device;
	a->bos = (uintptr_t)blob.bos;
	a->priv_data = (uintptr_t)blob.data;
	return criu_op(gpu.kfd, KFD_CRIU_OP_CHECKPOINT, a);
}

/*
 * Older kernels take back what could not be stopped, and 7.2 does; the others leave it, and UNPAUSE
 * knows of no pause.
 */
static void pause_fails(void)
{
	struct kfd_ioctl_criu_args a;

	gpu = open_gpu();
	MUST(!acquire(&gpu, gpu.render));
	rule("pause 1 62");
	IS(process_info(&a), -ETIME);
	IS(counter("evicted"), !kernel_now()->pauses_again);
	IS(checkpoint(&a), -EINVAL);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
	IS(process_info(&a), 0);
	/* That of a pause which is there already is lost, too. */
	if (kernel_now()->pauses_again) {
		rule("pause 1 5");
		IS(process_info(&a), -EIO);
		IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
		IS(counter("evicted"), 1);
	} else {
		IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
		IS(counter("evicted"), 1);
	}
}

static void unpause_fails(void)
{
	struct kfd_ioctl_criu_args a;

	gpu = open_gpu();
	MUST(!acquire(&gpu, gpu.render));
	MUST(!process_info(&a));
	rule("unpause 1 62");
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), -ETIME);
	IS(counter("evicted"), 0);
	IS(checkpoint(&a), 0);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), -EINVAL);
}

static void checkpoint_fails(void)
{
	struct kfd_ioctl_criu_args a;
	int fds;

	gpu = open_gpu();
	good(&blob);
	MUST(!blob_restore(&blob, &gpu));
	MUST(!criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()));
	MUST(!process_info(&a));
	fds = open_fds();
	memset(blob.data, 0, sizeof(blob.data));
	rule("checkpoint 3 24");
	IS(checkpoint(&a), -EMFILE);
	/* No descriptor is there, but what comes before the BOs is written. */
	IS(open_fds(), fds);
	CHECK(get32(blob.data) == 1 && get64(blob.data + BO(8) + 8));
	CHECK(!get64(blob.data + BO(1) + 12));
	IS(checkpoint(&a), 0);
	CHECK(open_fds() > fds);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
}

static int restore(void)
{
	gpu = open_gpu();
	good(&blob);
	args = blob_args(&blob);
	blob.device.drm_fd = gpu.render;
	return criu_op(gpu.kfd, KFD_CRIU_OP_RESTORE, &args);
}

static void restore_fails(void)
{
	int fds;

	gpu = open_gpu();
	fds = open_fds();
	close(gpu.kfd);
	close(gpu.render);
	rule("restore 3 12");
	IS(restore(), -ENOMEM);
	IS(open_fds(), fds);
	IS(counter("bos"), 2);
	IS(counter("evicted"), 1);
	/* There is no second try, but RESUME goes on with what there is. */
	args = blob_args(&blob);
	IS(criu_op(gpu.kfd, KFD_CRIU_OP_RESTORE, &args), -EINVAL);
}

/* All descriptors of BOs are there, and buckets say which. */
static void object_fails(void)
{
	int fds, i, n = 0;

	gpu = open_gpu();
	fds = open_fds();
	close(gpu.kfd);
	close(gpu.render);
	rule("object 2 28");
	IS(restore(), -ENOSPC);
	for (i = 0; i < (int)blob.nr_bos; i++)
		n += blob.bos[i].dmabuf_fd != KFD_INVALID_FD && fcntl(blob.bos[i].dmabuf_fd, F_GETFD) >= 0;
	IS(n, 7);
	IS(open_fds(), fds + n);
	IS(counter("queues"), 1);
	IS(counter("events"), 0);
	IS(counter("evicted"), 1);
}

static void range_fails(void)
{
	gpu = open_gpu();
	blob_begin(&blob, gpu.id);
	blob_svm(&blob, VRAM_VA, 4096, 2);
	blob_svm(&blob, VRAM_VA + 4096, 4096, 2);
	MUST(mmap((void *)VRAM_VA, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
	     MAP_FAILED);
	MUST(!blob_restore(&blob, &gpu));
	rule("resume 2 11");
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()), -EAGAIN);
	IS(counter("svm_ranges"), 1);
	IS(counter("evicted"), 1);
	/* The ranges are forgotten: a second RESUME goes on without the other one. */
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()), 0);
	IS(counter("svm_ranges"), 1);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (skip_on_real("rules in the middle of CRIU_OP are those of kfdsim"))
		return report("criu_middle_test");
	for (int i = 0; i < KERNELS; i++) {
		behave_as(&kernels[i]);
		in_child("criu_middle_test, PROCESS_INFO", pause_fails);
		in_child("criu_middle_test, UNPAUSE", unpause_fails);
		in_child("criu_middle_test, CHECKPOINT", checkpoint_fails);
		in_child("criu_middle_test, BO of RESTORE", restore_fails);
		in_child("criu_middle_test, object of RESTORE", object_fails);
		if (kernels[i].svm)
			in_child("criu_middle_test, range of RESUME", range_fails);
	}
	behave_as(&kernels[KERNEL_OF_GUEST]);
	return report("criu_middle_test");
}
