/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Private data of AMDKFD_IOC_CRIU_OP, version 1, byte for byte as kfd_chardev.c:criu_checkpoint and what it
 * calls write it on x86-64: process, devices, BOs, then queues, events and SVM ranges.
 */
#ifndef KFDSIM_CRIU_H
#define KFDSIM_CRIU_H

#include <linux/build_bug.h>
#include <linux/types.h>
#include <uapi/linux/kfd_ioctl.h>

#include "kfd/process_types.h"

struct dma_buf;

#define SIM_CRIU_VERSION	1
#define SIM_CRIU_MAX_GPUS	64	/* of the kernel with most; see sim_criu_bo_bytes() */

enum sim_criu_object {
	SIM_CRIU_QUEUE = 0,
	SIM_CRIU_EVENT = 1,
	SIM_CRIU_SVM = 2,
};

struct sim_criu_process {
	u32 version;
	u32 xnack_mode;
};

struct sim_criu_device {
	u64 reserved;
};

struct sim_criu_bo {
	u64 user_addr;
	u32 idr_handle;
	u32 mapped_gpuids[SIM_CRIU_MAX_GPUS];	/* user ids, ended by 0 */
};

struct sim_criu_queue {
	u32 object_type;
	u64 q_address, q_size, read_ptr_addr, write_ptr_addr, doorbell_off;
	u64 eop_ring_buffer_address, ctx_save_restore_area_address;
	u32 gpu_id, type, format, q_id, priority, q_percent, doorbell_id, gws, sdma_id;
	u32 eop_ring_buffer_size, ctx_save_restore_area_size, ctl_stack_size, mqd_size;
};

struct sim_criu_event {
	u32 object_type;
	u64 user_handle;		/* of the signal page; in the first event only */
	u32 event_id, auto_reset, type, signaled;
	u8 data[32];			/* memory or hw exception */
};

/* Common attributes, then ACCESS (or what is granted instead) for each GPU. */
struct sim_criu_svm {
	u32 object_type;
	u64 start, size;		/* pages */
	struct kfd_ioctl_svm_attribute attrs[];
};

#define SIM_CRIU_SVM_COMMON	4

/* What the simulated MQD holds at its beginning; a real one is hardware registers. */
struct sim_mqd {
	u32 magic;
	u32 halted;
	u64 pos;
	u64 progress;			/* of the SDMA packet at pos */
	u32 stack_bytes;		/* of the control stack in use: 0 or a struct sim_stack_entry */
	u32 ctl_stack_size;		/* bytes, of each XCC */
};

#define SIM_MQD_MAGIC 0x6d646b73	/* "skdm" */

static_assert(sizeof(struct sim_criu_process) == 8);
static_assert(sizeof(struct sim_criu_device) == 8);
static_assert(sizeof(struct sim_criu_bo) == 272);
static_assert(offsetof(struct sim_criu_bo, mapped_gpuids) == 12);
static_assert(sizeof(struct sim_criu_queue) == 120);
static_assert(offsetof(struct sim_criu_queue, gpu_id) == 64);
static_assert(offsetof(struct sim_criu_queue, doorbell_id) == 88);
static_assert(offsetof(struct sim_criu_queue, mqd_size) == 112);
static_assert(sizeof(struct sim_criu_event) == 64);
static_assert(offsetof(struct sim_criu_event, event_id) == 16);
static_assert(offsetof(struct sim_criu_event, data) == 32);
static_assert(offsetof(struct sim_criu_svm, attrs) == 24);

/* Bytes of a BO's record: an older kernel has room for fewer GPUs, amdgpu.h:MAX_GPU_INSTANCE @ 6.1.192. */
static inline u32 sim_criu_bo_bytes(const struct sim_process *p)
{
	return ALIGN(offsetof(struct sim_criu_bo, mapped_gpuids) + p->kernel->bo_gpus * sizeof(u32), sizeof(u64));
}

/* One RESTORE on its way through the blob. */
struct sim_load {
	struct sim_process *p;
	struct kfd_ioctl_criu_args *args;
	u64 offset;			/* into the blob, all of it consumed in the end */
	struct kfd_criu_bo_bucket *buckets;
	u8 *bos;			/* records of struct sim_criu_bo, sim_criu_bo_bytes() each */
	struct dma_buf **dmabufs;
};

/* criu_dump_bos.c */
struct dma_buf *sim_criu_dmabuf(struct sim_mem *mem, u32 flags);

/* criu_restore.c */
int sim_load_read(struct sim_load *l, void *dst, u64 len);

/* criu_queue.c */
u64 sim_criu_queues_size(struct sim_process *p, u32 *nr);
int sim_criu_queues_check(struct sim_process *p);
u8 *sim_criu_dump_queues(struct sim_process *p, u8 *at);

/* criu_load_queue.c */
int sim_criu_load_queue(struct sim_load *l);

/* criu_svm.c */
u64 sim_criu_svm_size(struct sim_process *p, u32 *nr);
u8 *sim_criu_dump_svm(struct sim_process *p, u8 *at);
int sim_criu_load_svm(struct sim_load *l);
int sim_criu_resume_svm(struct sim_process *p);

#endif
