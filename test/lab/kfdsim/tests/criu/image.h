/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A process dumped by CRIU_OP, in memory that the next process, which is restored from it, sees too. */
#ifndef KFDSIM_TEST_IMAGE_H
#define KFDSIM_TEST_IMAGE_H

#include "kfd/kfd.h"

#define IMAGE_GPUS 8
#define IMAGE_BOS 40
#define IMAGE_BO_BYTES (16ull << 20)	/* the largest BO it has room for */
#define IMAGE_BLOB_BYTES (128 * 1024)

struct image {
	struct kfd_ioctl_criu_args info;	/* the numbers PROCESS_INFO gave */
	struct kfd_criu_device_bucket devices[IMAGE_GPUS];
	struct kfd_criu_bo_bucket bos[IMAGE_BOS];
	uint8_t blob[IMAGE_BLOB_BYTES];
	uint8_t contents[IMAGE_BOS][IMAGE_BO_BYTES];
};

/* size bytes that forked processes share; pages exist once they are written. */
static inline void *shared_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	MUST(p != MAP_FAILED);
	return p;
}

/* Arguments of CHECKPOINT or RESTORE. */
static inline struct kfd_ioctl_criu_args image_args(struct image *im)
{
	struct kfd_ioctl_criu_args a = im->info;

	a.devices = (uintptr_t)im->devices;
	a.bos = (uintptr_t)im->bos;
	a.priv_data = (uintptr_t)im->blob;
	return a;
}

/* PROCESS_INFO of the process of kfd, which is to be paused until it ends or is unpaused. */
static inline void image_pause(struct image *im, int kfd)
{
	struct kfd_ioctl_criu_args a = {};

	MUST(!criu_op(kfd, KFD_CRIU_OP_PROCESS_INFO, &a));
	MUST(a.num_devices <= IMAGE_GPUS && a.num_bos <= IMAGE_BOS &&
	     a.priv_data_size <= IMAGE_BLOB_BYTES);
	im->info = a;
}

/* Content by the CPU, through the dma-bufs of CHECKPOINT or RESTORE; that is what their mmap is for. */
static inline void image_transfer(struct image *im, int to_bo)
{
	for (uint32_t i = 0; i < im->info.num_bos; i++) {
		struct kfd_criu_bo_bucket *b = &im->bos[i];
		void *p;

		if (b->dmabuf_fd == KFD_INVALID_FD)
			continue;
		CHECK(!(fcntl(b->dmabuf_fd, F_GETFD) & FD_CLOEXEC));
		p = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->dmabuf_fd, 0);
		MUST(p != MAP_FAILED && b->size <= IMAGE_BO_BYTES);
		memcpy(to_bo ? p : im->contents[i], to_bo ? im->contents[i] : p, b->size);
		munmap(p, b->size);
		close(b->dmabuf_fd);
	}
}

/* The caller, paused, as an image with content. */
static inline void image_dump(struct image *im, int kfd)
{
	struct kfd_ioctl_criu_args a;

	image_pause(im, kfd);
	a = image_args(im);
	MUST(!criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &a));
	image_transfer(im, 0);
}

/* RESTORE into the caller. The devices' render nodes are open already; see image_transfer() for content. */
static inline int image_restore(struct image *im, int kfd)
{
	struct kfd_ioctl_criu_args a = image_args(im);

	return criu_op(kfd, KFD_CRIU_OP_RESTORE, &a);
}

static inline struct kfd_criu_bo_bucket *image_bo(struct image *im, uint64_t va)
{
	for (uint32_t i = 0; i < im->info.num_bos; i++)
		if (im->bos[i].addr == va)
			return &im->bos[i];
	MUST(!"a BO at this address");
	return NULL;
}

/* Maps the restored BO of this address there. */
static inline void image_map(struct image *im, uint64_t va, int render)
{
	struct kfd_criu_bo_bucket *b = image_bo(im, va);

	MUST(mmap((void *)va, b->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, render,
		  b->restored_offset) != MAP_FAILED);
}

/* What make_ring() or make_aql() made. */
static inline void image_map_ring(struct image *im, uint64_t va, int render)
{
	image_map(im, va, render);
	image_map(im, va + RING_BYTES, render);
}

#ifdef KFDSIM_TEST_AQL_H
static inline void image_map_aql(struct image *im, uint64_t va, int render)
{
	image_map(im, va, render);
	image_map(im, va + AQL_RPTR, render);
	image_map(im, va + AQL_OBJECTS, render);
	image_map(im, va + AQL_SAVE, render);
}
#endif

#endif
