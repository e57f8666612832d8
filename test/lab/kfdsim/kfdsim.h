/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * kfdsim: a simulated AMD GPU behind the real amdgpu/KFD uapi.
 *
 * Lock order, outermost first:
 *   process->lock > process->run_lock > process->event_lock
 *   any of them > vm->lock (leaf: no user memory is touched below it)
 *   any of them > mmap_lock (pins of userptr pages, copies to and from user)
 * Nothing here takes one of these locks while holding mmap_lock.
 */
#ifndef KFDSIM_H
#define KFDSIM_H

#undef pr_fmt
#define pr_fmt(fmt) "kfdsim: " fmt

#include <linux/atomic.h>
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

/* One SOC15 process doorbell slice: 1024 doorbells of 8 bytes. */
#define SIM_DOORBELL_SLICE	8192
#define SIM_NUM_DOORBELLS	1024
#define SIM_NUM_SDMA		2
#define SIM_SDMA_QUEUES		8	/* user queues per SDMA engine */
#define SIM_MAX_QUEUES		127	/* user queues per process, as a gfx9 GPU with HWS */
#define SIM_FENCES_PER_RING	64	/* remembered submissions of a context per ring */
#define SIM_GPUVM_BASE		0x10000ULL
#define SIM_GPUVM_LIMIT		((1ULL << 47) - 1)
#define SIM_CURSOR_PAGES	64
#define SIM_EVENT_PAGE_SIZE	(KFD_SIGNAL_EVENT_LIMIT * 8)

/* /dev/kfd mmap offsets: type in bits 63:62, gpu id in bits 61:46. */
#define SIM_MMAP_TYPE_DOORBELL	(3ULL << 62)
#define SIM_MMAP_TYPE_EVENTS	(2ULL << 62)
#define SIM_MMAP_TYPE_MMIO	0ULL
#define SIM_MMAP_GPU_ID(id)	((u64)(id) << 46)

enum sim_bo_kind {
	SIM_BO_VRAM,
	SIM_BO_GTT,
	SIM_BO_USERPTR,
	SIM_BO_MMIO,		/* doorbell or MMIO remap: an address, no memory of its own */
};

/* Parameters and singletons of the one simulated GPU. */
struct sim_device {
	struct platform_device *pdev;
	struct drm_device *drm;
	struct device *kfd;
	struct workqueue_struct *wq;
	int kfd_major;
	u32 gpu_id;
	u32 gfx_target_version;
	u32 device_id;
	u64 vram_bytes;
	u64 gtt_bytes;
};

extern struct sim_device sim;

/* Living objects and totals shown in debugfs; names as in the file. */
struct sim_counters {
	atomic64_t processes, bos, vram_bytes, gtt_bytes, queues, events, vms, contexts;
	atomic64_t userptr, maps, evicted;
	atomic64_t cs_submitted, cs_max_in_flight, sdma_copies, sdma_bytes, gpu_faults;
	atomic64_t resume_without_vm;
};

extern struct sim_counters sim_count;

struct sim_bo {
	struct drm_gem_object base;
	enum sim_bo_kind kind;
	u32 domains;			/* AMDGPU_GEM_DOMAIN_*, as asked for */
	u64 create_flags;		/* AMDGPU_GEM_CREATE_* */
	u64 alignment;
	struct page **pages;		/* VRAM and GTT only */
	u64 user_addr;			/* userptr only */
	struct mm_struct *mm;		/* userptr only, mmgrab'ed */
	bool read_only;			/* userptr the GPU may not write */
	struct mutex lock;		/* vaddr, metadata */
	void *vaddr;			/* kernel mapping, made on first vmap */
	atomic64_t busy_until;		/* ns, CLOCK_MONOTONIC: end of the last CS listing it */
	u64 tiling_info, metadata_flags;
	u32 metadata_size;
	u32 metadata[64];
};

#define to_sim_bo(obj) container_of(obj, struct sim_bo, base)

struct sim_map {
	struct interval_tree_node it;	/* GPU VA range, last byte inclusive */
	struct sim_bo *bo;
	u64 offset;			/* into the BO, of it.start */
	u32 flags;			/* AMDGPU_VM_PAGE_* */
};

/* GPU address space of one render-node file. */
struct sim_vm {
	struct mutex lock;		/* maps, compute */
	struct rb_root_cached maps;
	bool compute;			/* acquired by a KFD process */
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
	spinlock_t lock;
	struct {
		u64 seq;
		u64 done[SIM_FENCES_PER_RING];	/* ns, CLOCK_MONOTONIC */
	} rings[SIM_NUM_SDMA];
};

struct sim_bo_list {
	u32 nr;
	struct sim_bo *bos[] __counted_by(nr);
};

/* KFD's view of a BO: one handle of one process at one GPU VA. */
struct sim_mem {
	struct sim_bo *bo;
	u64 va;
	u64 size;
	u32 flags;			/* KFD_IOC_ALLOC_MEM_FLAGS_* */
	bool mapped;
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

struct sim_queue {
	struct list_head link;
	u32 id;
	u32 type, format;
	u64 ring, ring_size;
	u64 rptr, wptr;			/* GPU VAs of the pointers */
	u64 eop, cwsr;
	u32 eop_size, cwsr_size, ctl_stack_size;
	u32 priority, percent;
	u32 doorbell_id, sdma_id;
	/* Engine state: what a real MQD holds. */
	u64 pos;			/* bytes (SDMA) or packets (AQL) consumed */
	u64 published;			/* last value written to the read pointer */
	u32 retiring;			/* bytes of the executed packet that still takes time */
	u64 retire_at;			/* ns, CLOCK_MONOTONIC */
	bool halted;			/* faulted: never runs again */
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

struct sim_process {
	struct list_head link;		/* sim_processes */
	struct kref ref;
	struct mm_struct *mm;
	struct mmu_notifier mn;
	struct task_struct *lead;
	struct work_struct release_work;

	struct mutex lock;
	bool dead;			/* mm gone: queues destroyed, ioctls refused */
	struct file *drm_file;		/* pins drm_priv and vm */
	struct drm_file *drm_priv;
	struct sim_vm *vm;
	u32 user_gpu_id;
	struct idr mems;
	u64 vram_usage;			/* bytes */
	unsigned long doorbells, mmio, own_event_page;
	DECLARE_BITMAP(doorbell_used, SIM_NUM_DOORBELLS);
	DECLARE_BITMAP(queue_slots, SIM_MAX_QUEUES);
	bool paused;			/* by PROCESS_INFO */
	bool restoring;			/* RESTORE done, RESUME not yet */
	struct delayed_work resume_work;

	struct mutex run_lock;		/* queues, evicted: taken by the worker */
	struct list_head queues;
	unsigned int evicted;
	u64 evicted_since;		/* ns */
	atomic64_t evicted_ns;
	struct task_struct *worker;
	wait_queue_head_t worker_wq;

	struct mutex event_lock;
	struct idr events;
	wait_queue_head_t event_wq;
	struct sim_bo *event_bo;
	u64 event_handle;		/* KFD handle of event_bo */
	u64 *slots;			/* signal page, whoever owns it */

	struct kobject *sysfs, *sysfs_stats;
};

/* SDMA execution: result of one packet. */
struct sim_sdma {
	struct sim_vm *vm;
	struct sim_process *process;	/* NULL for kernel submissions: traps raise no event */
	u64 bytes;			/* copied or filled so far, for the time model */
	u64 fault_va;			/* of the last fault, 0 if none */
	bool fault_write;
};

/* bo.c */
struct sim_bo *sim_bo_create(enum sim_bo_kind kind, u64 size);
struct sim_bo *sim_bo_create_userptr(struct mm_struct *mm, u64 addr, u64 size, bool read_only);
int sim_bo_probe_user(struct sim_bo *bo);
void *sim_bo_vmap(struct sim_bo *bo);
struct dma_buf *sim_bo_dmabuf(struct sim_bo *bo, u32 flags);
struct sim_bo *sim_bo_from_dmabuf(struct dma_buf *dmabuf);
void sim_bo_kfd_get(struct sim_bo *bo, struct dma_buf *dmabuf);
void sim_bo_kfd_put(struct sim_bo *bo);
u64 sim_vram_used(void);
static inline void sim_bo_get(struct sim_bo *bo) { drm_gem_object_get(&bo->base); }
static inline void sim_bo_put(struct sim_bo *bo) { drm_gem_object_put(&bo->base); }

/* vm.c */
void sim_vm_init(struct sim_vm *vm);
void sim_vm_fini(struct sim_vm *vm);
int sim_vm_map(struct sim_vm *vm, struct sim_bo *bo, u64 va, u64 size, u64 offset, u32 flags);
int sim_vm_unmap(struct sim_vm *vm, struct sim_bo *bo, u64 va);
int sim_vm_clear(struct sim_vm *vm, u64 va, u64 size);
bool sim_vm_is_mapped(struct sim_vm *vm, u64 va);
int sim_vm_resolve(struct sim_vm *vm, u64 va, bool write, struct sim_bo **bo, u64 *offset,
		   u64 *left);

/* cursor.c */
void sim_cursor_init(struct sim_cursor *c, struct sim_vm *vm, u64 va, bool write);
int sim_cursor_get(struct sim_cursor *c, u64 want, void **ptr, size_t *len);
void sim_cursor_advance(struct sim_cursor *c, size_t len);
void sim_cursor_end(struct sim_cursor *c);
int sim_vm_read(struct sim_vm *vm, u64 va, void *buf, u64 len);
int sim_vm_read32(struct sim_vm *vm, u64 va, u32 *val);
int sim_vm_read64(struct sim_vm *vm, u64 va, u64 *val);
int sim_vm_write16(struct sim_vm *vm, u64 va, u16 val);
int sim_vm_write32(struct sim_vm *vm, u64 va, u32 val);
int sim_vm_write64(struct sim_vm *vm, u64 va, u64 val);
int sim_vm_add64(struct sim_vm *vm, u64 va, u64 val);
int sim_vm_copy(struct sim_vm *vm, u64 dst, u64 src, u64 len, u64 *fault_va, bool *fault_write);
int sim_vm_fill32(struct sim_vm *vm, u64 va, u32 val, u64 len, u64 *fault_va);

/* engine.c */
void sim_engines_init(void);
u64 sim_engine_run(unsigned int engine, u64 begin, u64 bytes);
void sim_engine_note_cs(unsigned int engine, u64 done);
int sim_sleep_until(u64 when, u64 deadline);

/* ctx.c */
int sim_ctx_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_bo_list_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
struct sim_ctx *sim_ctx_get(struct sim_vm *vm, u32 id);
void sim_ctx_put(struct sim_ctx *ctx);
int sim_ctx_fence(struct sim_vm *vm, u32 ctx_id, u32 ip, u32 instance, u32 ring, u64 seq,
		  u64 *done);
int sim_bo_list_check(struct drm_file *file, u32 handle, u64 done);
int sim_bo_entries_check(struct drm_file *file, u64 ptr, u32 nr, u32 entry_size, u64 done);
void sim_ctx_free_all(struct sim_vm *vm);

/* cs.c */
int sim_cs_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_wait_cs_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_wait_fences_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
u64 sim_deadline(u64 timeout);

/* gem.c */
int sim_gem_create_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_mmap_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_userptr_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_va_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_op_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_metadata_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_wait_idle_ioctl(struct drm_device *dev, void *data, struct drm_file *file);

/* drm.c */
int sim_drm_init(void);
void sim_drm_fini(void);
bool sim_is_drm_file(struct file *file);

/* sdma.c */
int sim_sdma_packet_dwords(u32 header);
int sim_sdma_exec(struct sim_sdma *s, const u32 *packet);

/* aql.c */
bool sim_aql_step(struct sim_process *p, struct sim_queue *q);

/* queue.c */
u32 sim_mqd_size(u32 type);
int sim_queue_insert(struct sim_process *p, struct sim_queue *q, bool restore);
void sim_queue_remove(struct sim_process *p, struct sim_queue *q);
void sim_queues_destroy(struct sim_process *p);
int sim_kfd_create_queue(struct sim_process *p, void *data);
int sim_kfd_destroy_queue(struct sim_process *p, void *data);
int sim_kfd_update_queue(struct sim_process *p, void *data);
int sim_kfd_set_cu_mask(struct sim_process *p, void *data);

/* worker.c */
int sim_worker_start(struct sim_process *p);
void sim_worker_stop(struct sim_process *p);
void sim_queue_fault(struct sim_process *p, struct sim_queue *q, u64 va, bool write);

/* process.c */
int sim_process_init(void);
void sim_process_fini(void);
struct sim_process *sim_process_open(void);
struct sim_process *sim_process_by_mm(struct mm_struct *mm);
void sim_process_put(struct sim_process *p);
int sim_process_bind_vm(struct sim_process *p, int drm_fd);
void sim_process_evict(struct sim_process *p);
void sim_process_unevict(struct sim_process *p);

/* kfd_ioctl.c */
int sim_kfd_init(void);
void sim_kfd_fini(void);

/* kfd_device.c */
int sim_kfd_get_version(struct sim_process *p, void *data);
int sim_kfd_get_clock_counters(struct sim_process *p, void *data);
int sim_kfd_get_apertures(struct sim_process *p, void *data);
int sim_kfd_get_apertures_new(struct sim_process *p, void *data);
int sim_kfd_acquire_vm(struct sim_process *p, void *data);
int sim_kfd_set_xnack_mode(struct sim_process *p, void *data);
int sim_kfd_check_gpu_policy(struct sim_process *p, void *data);
int sim_kfd_check_gpu_scratch(struct sim_process *p, void *data);
int sim_kfd_check_gpu_trap(struct sim_process *p, void *data);
u64 sim_gpu_clock(void);

/* memory.c */
struct sim_mem *sim_mem_lookup(struct sim_process *p, u64 handle);
struct sim_mem *sim_mem_insert(struct sim_process *p, struct sim_bo *bo, u64 va, u32 flags,
			       struct dma_buf *dmabuf, int want_id, int *id);
int sim_mem_map(struct sim_process *p, struct sim_mem *mem);
void sim_mem_remove(struct sim_process *p, struct sim_mem *mem, int id);
struct sim_bo *sim_mem_make_bo(struct sim_process *p, u32 flags, u64 size, u64 user_addr);
u64 sim_mem_mmap_offset(struct sim_mem *mem, u32 gpu_id);
int sim_kfd_alloc_memory(struct sim_process *p, void *data);
int sim_kfd_free_memory(struct sim_process *p, void *data);
int sim_kfd_map_memory(struct sim_process *p, void *data);
int sim_kfd_unmap_memory(struct sim_process *p, void *data);
int sim_kfd_available_memory(struct sim_process *p, void *data);

/* dmabuf.c */
int sim_kfd_get_dmabuf_info(struct sim_process *p, void *data);
int sim_kfd_import_dmabuf(struct sim_process *p, void *data);
int sim_kfd_export_dmabuf(struct sim_process *p, void *data);

/* events.c */
int sim_kfd_create_event(struct sim_process *p, void *data);
int sim_kfd_destroy_event(struct sim_process *p, void *data);
int sim_kfd_set_event(struct sim_process *p, void *data);
int sim_kfd_reset_event(struct sim_process *p, void *data);
int sim_event_set_page(struct sim_process *p, u64 handle);
int sim_event_insert(struct sim_process *p, struct sim_event *ev, int want_id);
void sim_event_interrupt(struct sim_process *p, u32 id);
void sim_event_memory_fault(struct sim_process *p, u64 va, bool write);
void sim_events_free(struct sim_process *p);

/* event_wait.c */
void sim_event_wake(struct sim_process *p, struct sim_event *ev);
void sim_event_forget(struct sim_process *p, struct sim_event *ev);
int sim_kfd_wait_events(struct sim_process *p, void *data);

/* criu.c, criu_dump.c, criu_restore.c */
int sim_kfd_criu_op(struct sim_process *p, void *data);
void sim_criu_resume_work(struct work_struct *work);
int sim_criu_process_info(struct sim_process *p, struct kfd_ioctl_criu_args *args);
int sim_criu_checkpoint(struct sim_process *p, struct kfd_ioctl_criu_args *args);
int sim_criu_restore(struct sim_process *p, struct kfd_ioctl_criu_args *args);

/* topology.c */
int sim_topology_init(struct device *kfd);
void sim_topology_fini(void);

/* process_sysfs.c */
int sim_procfs_init(struct device *kfd);
void sim_procfs_fini(void);
void sim_procfs_add(struct sim_process *p);
void sim_procfs_remove(struct sim_process *p);

/* debugfs.c */
void sim_debugfs_init(void);
void sim_debugfs_fini(void);

#endif
