/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A dump on its way into a blob, and where the parts of the blob are. */
#ifndef KFDSIM_CRIU_DUMP_H
#define KFDSIM_CRIU_DUMP_H

#include <linux/uaccess.h>

#include "criu/criu.h"
#include "kfdsim.h"

struct sim_dump {
	struct sim_process *p;
	u32 nr_bos, nr_objects;
	u64 size;
	u8 *blob;
	struct kfd_criu_bo_bucket *buckets;
	struct dma_buf **dmabufs;	/* by bucket; NULL where there is none */
};

static inline u64 sim_dump_bos_offset(const struct sim_dump *d)
{
	return sizeof(struct sim_criu_process) + d->p->nr_pdds * sizeof(struct sim_criu_device);
}

static inline u64 sim_dump_objects_offset(const struct sim_dump *d)
{
	return sim_dump_bos_offset(d) + (u64)d->nr_bos * sim_criu_bo_bytes(d->p);
}

static inline int sim_dump_put(struct sim_dump *d, struct kfd_ioctl_criu_args *args, u64 from, u64 to)
{
	return copy_to_user(u64_to_user_ptr(args->priv_data + from), d->blob + from, to - from) ?
	       -EFAULT : 0;
}

/* criu_dump_bos.c */
u32 sim_dump_count_bos(struct sim_process *p);
int sim_dump_bos(struct sim_dump *d);
int sim_dump_write_bos(struct sim_dump *d, struct kfd_ioctl_criu_args *args);
void sim_dump_install(struct sim_dump *d);
void sim_dump_unwind(struct sim_dump *d);

#endif
