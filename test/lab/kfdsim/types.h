/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Constants, and structures of what a GPU has; those of processes are in kfd/process_types.h. */
#ifndef KFDSIM_TYPES_H
#define KFDSIM_TYPES_H

#undef pr_fmt
#define pr_fmt(fmt) "kfdsim: " fmt

#include <linux/atomic.h>
#include <linux/dma-fence.h>
#include <linux/idr.h>
#include <linux/interval_tree.h>
#include <linux/kobject.h>
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/platform_device.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <drm/amdgpu_drm.h>
#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <uapi/linux/kfd_ioctl.h>

#include "behaves.h"
#include "microop.h"

/* One SOC15 process doorbell slice: 1024 doorbells of 8 bytes. */
#define SIM_DOORBELL_SLICE	8192
#define SIM_NUM_DOORBELLS	1024
#define SIM_MAX_GPUS		8
#define SIM_MAX_SDMA		16	/* engines of one GPU, as MI300X has */
#define SIM_MAX_XCC		8	/* of one GPU */
#define SIM_SDMA_QUEUES		8	/* user queues per SDMA engine */
#define SIM_MAX_QUEUES		1024	/* user queues per process: the range of queue ids */
#define SIM_DMA_RINGS		2	/* of a context: amdgpu_ctx.c:amdgpu_ctx_num_entities @ 6.12.117 */
#define SIM_FENCES_PER_RING	64	/* remembered submissions of a context per ring */
#define SIM_GPUVM_BASE		0x10000ULL
#define SIM_GPUVM_LIMIT		((1ULL << 47) - 1)
/* Addresses have 48 bits, the upper half sign-extended; what is between is neither's (amdgpu_gmc.h @ 6.12.117). */
#define SIM_GPUVM_HOLE		0x0000800000000000ULL
#define SIM_GPUVM_HIGH		0xffff800000000000ULL
#define SIM_GPUVM_MASK		0x0000ffffffffffffULL
/* End of what can be mapped; the driver keeps the rest: amdgpu_vm.h:AMDGPU_VA_RESERVED_TOP. */
#define SIM_GPUVM_END		((1ULL << 48) - (4 << 20) - (64 << 10))
#define SIM_CURSOR_PAGES	64
#define SIM_MAX_CTL_STACK	(1u << 20)	/* bytes of one queue */
#define SIM_EVENT_PAGE_SIZE	(KFD_SIGNAL_EVENT_LIMIT * 8)

/* /dev/kfd mmap offsets: type in bits 63:62, gpu id in bits 61:46. */
#define SIM_MMAP_TYPE_DOORBELL	(3ULL << 62)
#define SIM_MMAP_TYPE_EVENTS	(2ULL << 62)
#define SIM_MMAP_TYPE_MMIO	0ULL
#define SIM_MMAP_GPU_ID(id)	((u64)(id) << 46)

/* AMDGPU_GEM_CREATE_* that GEM_CREATE takes: amdgpu_gem.c:amdgpu_gem_create_ioctl. */
#define SIM_CREATE_SETTABLE_61	(AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | \
				 AMDGPU_GEM_CREATE_NO_CPU_ACCESS | \
				 AMDGPU_GEM_CREATE_CPU_GTT_USWC | \
				 AMDGPU_GEM_CREATE_VRAM_CLEARED | \
				 AMDGPU_GEM_CREATE_VM_ALWAYS_VALID | \
				 AMDGPU_GEM_CREATE_EXPLICIT_SYNC | \
				 AMDGPU_GEM_CREATE_ENCRYPTED | \
				 AMDGPU_GEM_CREATE_DISCARDABLE)
#define SIM_CREATE_SETTABLE_612	(SIM_CREATE_SETTABLE_61 | AMDGPU_GEM_CREATE_GFX12_DCC)
/* The same as amdgpu_gem.h:AMDGPU_GEM_CREATE_SETTABLE_MASK @ 7.3.4. */
#define SIM_CREATE_SETTABLE	(SIM_CREATE_SETTABLE_612 | \
				 AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE | \
				 AMDGPU_GEM_CREATE_COHERENT | \
				 AMDGPU_GEM_CREATE_UNCACHED | \
				 AMDGPU_GEM_CREATE_EXT_COHERENT)

enum sim_bo_kind {
	SIM_BO_VRAM,
	SIM_BO_GTT,
	SIM_BO_USERPTR,
	SIM_BO_IMPORT,		/* pages of another device's dma-buf */
	SIM_BO_MMIO,		/* doorbell or MMIO remap: an address, no memory of its own */
};

struct sim_engine;
struct sim_process;

/* One simulated GPU. What is set by parameters does not change after loading. */
struct sim_gpu {
	unsigned int index;
	u32 gpu_id;			/* of KFD, unique, 1 to 65535 */
	u32 gfx_target_version;		/* major * 10000 + minor * 100 + stepping */
	u32 device_id;			/* PCI */
	u32 compute_units;		/* of all XCCs together */
	u32 num_xcc;
	u32 num_sdma;			/* SDMA engines for any copy; behind them come */
	u32 num_xgmi;			/* those for copies over XGMI */
	u32 numa_node;
	u32 cwsr_bytes;			/* context save area of a queue on one XCC; */
	u32 ctl_stack_bytes;		/* of these, control stack */
	u32 debugger_bytes;		/* behind it */
	u32 partition;			/* of the device that it is a part of; */
	u32 partitions;			/* as many has that. 1: it is a whole one */
	u32 hive;			/* GPUs of one hive are linked by XGMI; 0: PCIe only */
	u64 vram_bytes;
	atomic64_t vram_used, gtt_used;	/* bytes */
	u64 kfd_vram, kfd_vram_units;	/* of these KFD's, and each BO in whole units: memory/limits.c */
	struct platform_device *pdev;
	struct drm_device *drm;
	struct idr kfd_handles;		/* of GEM, by number; drm->object_name_lock */
	struct sim_engine *engines;	/* num_sdma + num_xgmi of them */
	/* SDMA queues are shared by all processes; a bit is a number of struct sim_engines. */
	spinlock_t sdma_lock;
	DECLARE_BITMAP(sdma_used, SIM_MAX_SDMA * SIM_SDMA_QUEUES);
	DECLARE_BITMAP(xgmi_used, SIM_MAX_SDMA * SIM_SDMA_QUEUES);
};

/* All GPUs, and what there is once. */
struct sim_device {
	struct device *kfd;
	struct workqueue_struct *wq;
	int kfd_major;
	bool p2p;			/* peers reach each other's VRAM over PCIe */
	u64 gtt_bytes;			/* per GPU */
	unsigned int nr_gpus;
	struct sim_gpu gpus[SIM_MAX_GPUS];
};

extern struct sim_device sim;

/* Living objects and totals shown in debugfs; names as in the file. */
struct sim_counters {
	atomic64_t processes, bos, vram_bytes, gtt_bytes, queues, events, vms, contexts;
	atomic64_t userptr, maps, fences, evicted, pinned_pages;
	atomic64_t cs_submitted, cs_max_in_flight, sdma_copies, sdma_bytes, gpu_faults;
	atomic64_t dispatches, doorbell_faults, queue_polls;
	atomic64_t resume_without_vm, resume_unrestored, paused_again, blob_overruns, mes_restores, freed_folders;
	atomic64_t event_page_mixups, stale_handle_deletes;
	atomic64_t svm_ranges, pages_returned;
};

extern struct sim_counters sim_count;

struct sim_bo {
	struct drm_gem_object base;
	enum sim_bo_kind kind;
	u32 domains;			/* AMDGPU_GEM_DOMAIN_*, as asked for */
	u64 create_flags;		/* AMDGPU_GEM_CREATE_* */
	u64 alignment;
	struct page **pages;		/* VRAM, GTT and imports only */
	struct sg_table *sgt;		/* imports only */
	u64 user_addr;			/* userptr only */
	struct mm_struct *mm;		/* userptr only, mmgrab'ed */
	bool of_kfd;			/* counts for KFD's limits */
	bool read_only;			/* userptr the GPU may not write */
	bool lost;			/* userptr that RESUME found no memory behind: the GPU faults */
	struct mutex lock;		/* vaddr, metadata */
	void *vaddr;			/* kernel mapping, made on first vmap */
	atomic64_t busy_until;		/* ns, CLOCK_MONOTONIC: end of the last CS listing it */
	u64 tiling_info, metadata_flags;
	u32 metadata_size;
	u32 metadata[64];
};

#define to_sim_bo(obj) container_of(obj, struct sim_bo, base)

/*
 * A BO in one address space. It is known there as long as the file has a GEM handle to it, or
 * KFD has it mapped: with the last of them its mappings go.
 */
struct sim_bo_va {
	struct rb_node node;		/* sim_vm.bo_vas, by address of the BO */
	struct sim_bo *bo;
	unsigned int refs;
	unsigned int queue_refs;	/* queues that were made of it: KFD does not unmap it then */
	struct list_head maps;		/* newest first */
};

struct sim_map {
	struct interval_tree_node it;	/* GPU VA range, last byte inclusive */
	struct list_head link;		/* sim_bo_va.maps */
	struct sim_bo_va *bo_va;
	struct sim_bo *bo;
	u64 offset;			/* into the BO, of it.start */
	bool kept;			/* by KFD: there without being in the list of a submission */
	u32 flags;			/* AMDGPU_VM_PAGE_* */
};

/* GPU address space of one render-node file. */
struct sim_vm {
	struct sim_gpu *gpu;
	struct mutex handle_lock;	/* a handle changes its number */
	struct mutex lock;		/* maps, bo_vas, compute */
	struct rb_root_cached maps;
	struct rb_root bo_vas;
	/* A KFD process has it, or had (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_acquire_process_vm @ 6.12.117). */
	bool compute;
	struct mutex ctx_lock;		/* ctxs, lists */
	struct idr ctxs;
	struct idr lists;
};

/* A walk through GPU addresses handing out kernel pointers, one page at most at a time. */
struct sim_cursor {
	struct sim_vm *vm;
	u64 va;
	bool write;
	struct sim_bo *bo;		/* referenced while inside one of its maps */
	u64 offset;			/* into bo, of va */
	u64 left;			/* bytes until the end of the map */
	struct mm_struct *mm;		/* users reference while pages are pinned */
	struct page *pins[SIM_CURSOR_PAGES];
	u64 pin_first;			/* page index in the userptr of pins[0] */
	unsigned int nr_pins;
};

struct sim_ctx {
	struct kref ref;
	u64 fence_context;		/* of rings[0]; the others follow */
	spinlock_t lock;
	u32 resets, vram_losses;	/* of the GPU, when it was made */
	u32 resets_told, ras_ce, ras_ue;	/* and when it was asked last */
	struct {
		u64 seq;
		u64 done[SIM_FENCES_PER_RING];	/* ns, CLOCK_MONOTONIC */
		int error[SIM_FENCES_PER_RING];	/* -errno of the submission, or 0 */
		u32 engine;			/* that the last one went to */
	} rings[SIM_DMA_RINGS];
};

/* What a submission waits for and what it signals. */
struct sim_sync {
	u64 begin;			/* ns, CLOCK_MONOTONIC: not before this */
	bool signals;			/* there was a chunk with syncobjs to signal */
	u32 nr;
	struct sim_sync_out {
		struct drm_syncobj *syncobj;
		struct dma_fence_chain *chain;	/* NULL: replace the fence, no timeline */
		u64 point;
	} *outs;
};

/* What an engine is to do, and for whom. */
struct sim_submission {
	struct list_head link;
	struct sim_vm *vm;
	struct sim_ctx *ctx;
	struct sim_bo_list *bos;
	struct dma_fence *fence;	/* NULL: nobody asked for one */
	u32 ring, engine;
	u64 seq;			/* on the ring of ctx */
	u64 done;			/* ns, CLOCK_MONOTONIC: when it ends */
	u64 ns;				/* of engine time */
	bool stop;			/* its file was closed while it is being executed */
	u32 nr_ibs;
	struct {
		u64 va;
		u32 bytes;
	} ibs[] __counted_by(nr_ibs);
};

struct sim_bo_list {
	struct kref ref;
	u32 nr;
	struct sim_bo *bos[] __counted_by(nr);
};

/* SDMA execution: result of one packet. */
struct sim_sdma {
	struct sim_vm *vm;
	u32 engine;			/* its rate is what the time is reckoned by */
	const bool *stop;		/* NULL for user queues, else whether to go on no more */
	struct sim_process *process;	/* NULL for kernel submissions: traps raise no event */
	u64 limit;			/* bytes of a packet moved by one call, a multiple of 4 */
	u64 progress;			/* of the packet: bytes, or rows of a rectangle */
	u64 ns;				/* engine time taken so far */
	u64 fault_va;			/* of the last fault, 0 if none */
	bool fault_write;
};

#endif
