/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Structures of what a KFD process has: memory, queues, events, SVM. */
#ifndef KFDSIM_PROCESS_TYPES_H
#define KFDSIM_PROCESS_TYPES_H

#include "types.h"

/* KFD's view of a BO: one handle of one process at one GPU VA. */
struct sim_mem {
	struct sim_pdd *pdd;		/* whose handle it is */
	struct sim_bo *bo;
	u64 va;
	u64 size;
	u32 flags;			/* KFD_IOC_ALLOC_MEM_FLAGS_* */
	u32 mapped;			/* bit i: on pdds[i] of the process */
	u32 gem_handle;			/* a number of gpu->kfd_handles, perhaps of another BO by now; 0: none */
	struct dma_buf *dmabuf;		/* imported, or exported before; NULL: neither */
	bool is_import;
};

/* Queue types as the private CRIU blob stores them. */
enum sim_queue_type {
	SIM_QUEUE_COMPUTE = 0,
	SIM_QUEUE_SDMA = 1,
	SIM_QUEUE_SDMA_XGMI = 4,
};

enum sim_queue_format {
	SIM_FORMAT_PM4 = 0,
	SIM_FORMAT_AQL = 1,
};

/* A micro-operation that is being run, as the save area of a queue holds it that was stopped. */
struct sim_wave {
	u32 magic;			/* SIM_WAVE_MAGIC, 0: no dispatch is being run */
	u32 op;				/* the rest: see microop.h */
	u64 address, size;
	u32 value, step_us;
	u64 progress;			/* steps done, us of a spin */
	u64 start;			/* GPU clock */
	u64 reserved[2];
};

#define SIM_WAVE_MAGIC 0x77646b73	/* "skdw" */

/* What the control stack has of a wave in the save area. */
struct sim_stack_entry {
	u32 magic, bytes;
	u32 checksum;			/* of the wave */
	u32 reserved[13];
};

struct sim_aql_packet {
	u16 header;
	u16 setup[3];
	union {
		u64 dep_signal[5];	/* barriers */
		struct {		/* kernel dispatch */
			u32 sizes[6];	/* of work group, grid and segments: of no use here */
			u64 kernel_object, kernarg_address;
		};
	};
	u64 reserved;
	u64 completion_signal;
};

struct sim_gpu_fault {
	u64 va;
	bool write;
};

/* What a queue that was looked at waits for. */
enum sim_step {
	SIM_STEP_IDLE,			/* a doorbell */
	SIM_STEP_DONE,			/* nothing: it got on and may do so again */
	SIM_STEP_TIME,			/* its ready_at */
	SIM_STEP_MEMORY,		/* a word of memory somebody will write */
};

/* Buffers that a queue is made of; struct sim_queue has them. */
enum sim_queue_buffer {
	SIM_BUFFER_WPTR, SIM_BUFFER_RPTR, SIM_BUFFER_RING, SIM_BUFFER_EOP, SIM_BUFFER_CWSR,
	SIM_QUEUE_BUFFERS
};

struct sim_queue {
	struct list_head link;
	struct sim_pdd *pdd;		/* the GPU it runs on */
	u32 id;
	u32 type, format;
	u64 ring, ring_size;
	u64 rptr, wptr;			/* GPU VAs of the pointers */
	u64 eop, cwsr;
	u32 eop_size, cwsr_size, ctl_stack_size;
	struct sim_bo *buffers[SIM_QUEUE_BUFFERS];	/* NULL: it has none */
	u32 priority, percent;
	u32 doorbell_id, sdma_id;
	/* Engine state: what a real MQD holds. */
	u64 pos;			/* bytes (SDMA) or packets (AQL) consumed */
	u64 published;			/* last value written to the read pointer */
	u64 progress;			/* of the packet at pos: bytes or rows of an SDMA copy */
	u32 retiring;			/* bytes of the executed packet that still takes time */
	u64 ready_at;			/* ns, CLOCK_MONOTONIC: nothing happens before */
	bool halted;			/* faulted: never runs again */
	bool partial;			/* not all XCCs know of it: it does not run either */
	bool idle;			/* was empty when last looked at */
	struct sim_wave wave;
	bool stopped;			/* the wave is in the save area, */
	struct sim_stack_entry stack;	/* as this says */
	u64 spin_since;			/* ns, CLOCK_MONOTONIC; 0: no spin is running */
	struct kobject *sysfs;
};

struct sim_event {
	u32 id, type;
	bool auto_reset, signaled;
	u64 age;
	union {
		struct kfd_hsa_memory_exception_data memory;
		struct kfd_hsa_hw_exception_data hw;
	};
	struct list_head waiters;
};

/* Process device data: one process on one GPU it may see. */
struct sim_pdd {
	struct sim_process *p;
	struct sim_gpu *gpu;
	u32 user_gpu_id;		/* what ioctls of p call this GPU */
	struct file *drm_file;		/* pins drm_priv and vm; NULL until a VM is acquired */
	struct drm_file *drm_priv;
	struct sim_vm *vm;
	struct idr mems;
	u64 vram_usage;			/* bytes */
	u64 evicted_since;		/* jiffies; 0: never with a VM */
	atomic64_t evicted_jiffies;	/* of evictions that are over */
	atomic64_t sdma_ns;		/* of user queues on SDMA engines */
	unsigned int nr_queues;
	unsigned long doorbells, mmio;
	DECLARE_BITMAP(doorbell_used, SIM_NUM_DOORBELLS);
};

/* Shared virtual memory of a process: see svm.h. */
struct sim_svm {
	struct mutex lock;		/* ranges, nr_ranges */
	struct rb_root_cached ranges;
	u32 nr_ranges;
	struct list_head restored;	/* by RESTORE, set by RESUME; p->lock */
};

struct sim_process {
	struct list_head link;		/* sim_processes */
	struct kref ref;
	struct mm_struct *mm;
	struct mmu_notifier mn;
	struct task_struct *lead;
	struct work_struct release_work;

	const struct sim_kernel *kernel;	/* as which it is treated, all its life */
	struct sim_svm svm;

	struct mutex lock;
	bool dead;			/* mm gone: ioctls refused */
	bool outlives;			/* dead, but its queues run */
	unsigned int nr_pdds;		/* GPUs the opener could see; fixed */
	struct sim_pdd pdds[SIM_MAX_GPUS];
	unsigned long own_event_page;
	DECLARE_BITMAP(queue_slots, SIM_MAX_QUEUES);
	bool paused;			/* by PROCESS_INFO */
	bool restoring;			/* RESTORE done, RESUME not yet */
	bool runtime_enabled;		/* by RUNTIME_ENABLE: not in a blob */
	bool xnack;			/* retries faults: remembered and saved, of no effect */
	struct delayed_work resume_work;

	struct mutex run_lock;		/* queues, evicted: held by the worker for its rounds */
	atomic_t run_waiters;		/* who wants run_lock: the worker gives way */
	struct list_head queues;
	unsigned int evicted;
	struct task_struct *worker;
	wait_queue_head_t worker_wq;
	bool kicked;			/* the worker has a reason to look */

	struct mutex event_lock;
	struct idr events;
	wait_queue_head_t event_wq;
	struct sim_bo *event_bo;
	u64 event_handle;		/* KFD handle of event_bo */
	u64 *slots;			/* signal page, whoever owns it */

	struct kobject *sysfs, *queues_dir;
};

#endif
