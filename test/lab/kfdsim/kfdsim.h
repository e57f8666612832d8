/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * kfdsim: a simulated AMD GPU behind the real amdgpu/KFD uapi.
 *
 * Lock order, outermost first:
 *   vm->handle_lock > process->lock > process->run_lock > process->event_lock
 *   any of them > vm->lock (leaf: no user memory is touched below it)
 *   any of them > mmap_lock (pins of userptr pages, copies to and from user)
 *   any of them, mmap_lock too > svm.lock (leaf: taken when memory is unmapped)
 * Nothing here takes another of these locks while holding mmap_lock; a doorbell fault, which
 * runs under it, only wakes the worker.
 */
#ifndef KFDSIM_H
#define KFDSIM_H

#include "faults.h"
#include "process_types.h"
#include "rates.h"

struct sim_fence;
struct sim_gem_op;
struct sim_gem_vm_entry;

/* gpus.c */
int sim_gpus_init(void);
void sim_gpus_fini(void);
struct sim_gpu *sim_gpu_by_id(u32 gpu_id);
static inline struct sim_gpu *sim_gpu_of(struct drm_device *dev) { return dev->dev_private; }

/* bo.c */
struct sim_bo *sim_bo_create(struct sim_gpu *gpu, enum sim_bo_kind kind, u64 size);
struct sim_bo *sim_bo_create_import(struct sim_gpu *gpu, u64 size, struct sg_table *sgt);
struct sim_bo *sim_bo_create_userptr(struct sim_gpu *gpu, struct mm_struct *mm, u64 addr,
				     u64 size, bool read_only);
static inline void sim_bo_get(struct sim_bo *bo) { drm_gem_object_get(&bo->base); }
static inline void sim_bo_put(struct sim_bo *bo) { drm_gem_object_put(&bo->base); }
static inline struct sim_gpu *sim_bo_gpu(struct sim_bo *bo) { return sim_gpu_of(bo->base.dev); }

/* page_pool.c */
int sim_pages_take(struct page **pages, unsigned long n);
void sim_pages_give(struct page **pages, unsigned long n);
void sim_pages_discard(struct page **pages, unsigned long n);
int sim_pages_init(void);
void sim_pages_fini(void);

/* bo_map.c */
extern const struct vm_operations_struct sim_bo_vm_ops;
void *sim_bo_vmap(struct sim_bo *bo);
int sim_bo_gem_vmap(struct drm_gem_object *obj, struct iosys_map *map);
void sim_bo_gem_vunmap(struct drm_gem_object *obj, struct iosys_map *map);
int sim_bo_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma);
int sim_bo_probe_user(struct sim_bo *bo);

/* vm.c */
void sim_vm_init(struct sim_vm *vm, struct sim_gpu *gpu);
void sim_vm_fini(struct sim_vm *vm);
int sim_vm_attach(struct sim_vm *vm, struct sim_bo *bo);
void sim_vm_detach(struct sim_vm *vm, struct sim_bo *bo);
u32 sim_vm_list_maps(struct sim_vm *vm, struct sim_bo *bo, struct sim_gem_vm_entry *entries,
		     u32 max);
int sim_vm_map(struct sim_vm *vm, struct sim_bo *bo, u64 va, u64 size, u64 offset, u32 flags);
int sim_vm_unmap(struct sim_vm *vm, struct sim_bo *bo, u64 va);
int sim_vm_clear(struct sim_vm *vm, u64 va, u64 size);
bool sim_vm_overlaps(struct sim_vm *vm, u64 va, u64 size);
struct sim_bo *sim_vm_queue_get(struct sim_vm *vm, u64 va, u64 size);
void sim_vm_queue_put(struct sim_vm *vm, struct sim_bo *bo);
bool sim_vm_has_queue(struct sim_vm *vm, struct sim_bo *bo);
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
int sim_vm_increment32(struct sim_vm *vm, u64 va, u32 val, u64 len, u64 *fault_va);

/* engine.c */
static inline u32 sim_num_engines(const struct sim_gpu *gpu)
{
	return gpu->num_sdma + gpu->num_xgmi;
}
int sim_engines_init(struct sim_gpu *gpu);
void sim_engines_fini(struct sim_gpu *gpu);
u64 sim_engine_run(struct sim_gpu *gpu, unsigned int engine, u64 begin, u64 ns);
u64 sim_copy_ns(const struct sim_sdma *s, u64 dst, u64 src, u64 bytes);
u64 sim_fill_ns(const struct sim_sdma *s, u64 dst, u64 bytes);
void sim_engine_note_cs(struct sim_gpu *gpu, unsigned int engine, u64 done);
int sim_sleep_until(u64 when, u64 deadline);

/* ctx.c */
int sim_ctx_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_bo_list_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
struct sim_ctx *sim_ctx_get(struct sim_vm *vm, u32 id);
void sim_ctx_put(struct sim_ctx *ctx);
int sim_ctx_fence(struct sim_vm *vm, u32 ctx_id, u32 ip, u32 instance, u32 ring, u64 seq,
		  u64 *done, int *error);
struct dma_fence *sim_ctx_fence_get(struct sim_vm *vm, const struct drm_amdgpu_fence *which);
int sim_bo_list_check(struct drm_file *file, u32 handle, u64 done);
int sim_bo_entries_check(struct drm_file *file, u64 ptr, u32 nr, u32 entry_size, u64 done);
void sim_ctx_free_all(struct sim_vm *vm);

/* cs.c */
int sim_cs_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_wait_cs_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_wait_fences_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
u64 sim_deadline(u64 timeout);

/* fence.c */
struct sim_fence *sim_fence_alloc(void);
void sim_fence_discard(struct sim_fence *f);
struct dma_fence *sim_fence_start(struct sim_fence *f, u64 context, u64 seq, u64 done, int error);
int sim_fence_done(struct dma_fence *fence, u64 *done);

/* syncobj.c */
int sim_sync_wait_chunk(struct sim_sync *s, struct drm_file *file,
			const struct drm_amdgpu_cs_chunk *chunk);
int sim_sync_signal_chunk(struct sim_sync *s, struct drm_file *file,
			  const struct drm_amdgpu_cs_chunk *chunk);
void sim_sync_signal(struct sim_sync *s, struct dma_fence *fence);
void sim_sync_free(struct sim_sync *s);
int sim_fence_to_handle_ioctl(struct drm_device *dev, void *data, struct drm_file *file);

/* handles.c */
int sim_gem_list_handles_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_get_mapping_info(struct drm_file *file, struct sim_bo *bo, struct sim_gem_op *args);
long sim_drm_unlocked_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);
long sim_drm_compat_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);

/* prime.c */
struct drm_gem_object *sim_prime_import_sg_table(struct drm_device *dev,
						 struct dma_buf_attachment *attach,
						 struct sg_table *sgt);
struct sg_table *sim_bo_get_sg_table(struct drm_gem_object *obj);
struct dma_buf *sim_bo_export(struct drm_gem_object *obj, int flags);
struct dma_buf *sim_bo_dmabuf(struct sim_bo *bo, u32 flags);
struct sim_bo *sim_bo_from_dmabuf(struct dma_buf *dmabuf);
void sim_bo_kfd_get(struct sim_bo *bo, struct dma_buf *dmabuf);
void sim_bo_kfd_put(struct sim_bo *bo);

/* gem.c */
int sim_gem_create_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_mmap_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_userptr_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_va_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_op_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_metadata_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_wait_idle_ioctl(struct drm_device *dev, void *data, struct drm_file *file);

/* drm.c */
int sim_drm_init(struct sim_gpu *gpu);
void sim_drm_fini(struct sim_gpu *gpu);
bool sim_is_drm_file(struct file *file);
bool sim_gpu_visible(struct sim_gpu *gpu);

/* sdma.c */
int sim_sdma_packet_dwords(u32 header);
int sim_sdma_exec(struct sim_sdma *s, const u32 *packet);
int sim_sdma_flip(struct sim_sdma *s, u64 dst, u64 bit);
int sim_sdma_begin_copy(struct sim_sdma *s, u64 dst, struct sim_copy_fault *fault);

/* sdma_rect.c */
int sim_sdma_rect(struct sim_sdma *s, const u32 *packet);

/* sdma_queue.c */
void sim_queue_retire(struct sim_queue *q);
enum sim_step sim_sdma_step(struct sim_process *p, struct sim_queue *q, u64 now);

/* aql.c */
enum sim_step sim_aql_step(struct sim_process *p, struct sim_queue *q, u64 now);

/* microop.c */
bool sim_wave_valid(const struct sim_wave *w);
int sim_dispatch_step(struct sim_queue *q, const struct sim_aql_packet *pkt, u64 now,
		      struct sim_gpu_fault *fault);
void sim_wave_preempt(struct sim_queue *q, u64 now);
u64 sim_wave_end(struct sim_queue *q);

/* mqd.c */
struct sim_mqd;
void sim_queue_preempt(struct sim_queue *q, u64 now);
void sim_queue_save(const struct sim_queue *q, void *mqd, void *ctl_stack);
int sim_queue_load(struct sim_queue *q, const struct sim_mqd *m, const struct sim_wave *wave);
int sim_kfd_get_wave_state(struct sim_process *p, void *data);

/* doorbell.c */
void sim_doorbell_mmap(struct vm_area_struct *vma, struct sim_pdd *pdd);
void sim_doorbell_arm(struct sim_process *p);

/* queue_hw.c */
bool sim_is_sdma(u32 type);
u32 sim_queue_engine(const struct sim_queue *q);
int sim_queue_hw_take(struct sim_queue *q, bool restore);
void sim_queue_hw_release(struct sim_queue *q);

/* queue_buffers.c */
int sim_queue_buffers_get(struct sim_queue *q);
int sim_queue_ring_change(struct sim_queue *q, u64 ring, u64 size);
void sim_queue_buffers_put(struct sim_queue *q);

/* queue.c */
int sim_queue_insert(struct sim_process *p, struct sim_queue *q, bool restore);
void sim_queue_remove(struct sim_process *p, struct sim_queue *q);
void sim_queues_destroy(struct sim_process *p);
struct sim_queue *sim_queue_find(struct sim_process *p, u32 id);
int sim_kfd_create_queue(struct sim_process *p, void *data);
int sim_kfd_destroy_queue(struct sim_process *p, void *data);
int sim_kfd_update_queue(struct sim_process *p, void *data);
int sim_kfd_set_cu_mask(struct sim_process *p, void *data);

/* worker.c */
int sim_worker_start(struct sim_process *p);
void sim_worker_stop(struct sim_process *p);
void sim_worker_kick(struct sim_process *p);
void sim_run_lock(struct sim_process *p);

/* queue_run.c */
enum sim_step sim_queue_step(struct sim_process *p, struct sim_queue *q, u64 now);
bool sim_queue_pending(struct sim_process *p, struct sim_queue *q, u64 now, u64 *wptr,
		       enum sim_step *step);
void sim_queue_fault(struct sim_process *p, struct sim_queue *q, u64 va, bool write);
void sim_queue_halt(struct sim_process *p, struct sim_queue *q, const char *what, u32 code);

/* process.c */
int sim_process_init(void);
void sim_process_fini(void);
struct sim_process *sim_process_open(void);
struct sim_process *sim_process_by_mm(struct mm_struct *mm);
struct sim_process *sim_process_after(struct sim_process *p);
void sim_process_put(struct sim_process *p);
struct sim_pdd *sim_pdd_by_id(struct sim_process *p, u32 user_gpu_id);
struct sim_pdd *sim_pdd_with_vm(struct sim_process *p, u32 user_gpu_id);
struct sim_pdd *sim_pdd_by_gpu(struct sim_process *p, struct sim_gpu *gpu);
bool sim_process_has_vm(struct sim_process *p);
int sim_pdd_bind_vm(struct sim_pdd *pdd, int drm_fd);
void sim_process_evict(struct sim_process *p);
void sim_process_evict_locked(struct sim_process *p);
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
bool sim_process_may_retry(struct sim_process *p);
int sim_kfd_set_xnack_mode(struct sim_process *p, void *data);
int sim_kfd_check_gpu_policy(struct sim_process *p, void *data);
int sim_kfd_check_gpu_scratch(struct sim_process *p, void *data);
int sim_kfd_check_gpu_trap(struct sim_process *p, void *data);
u64 sim_gpu_clock(void);

/* memory.c */
struct sim_mem *sim_mem_lookup(struct sim_process *p, u64 handle);
struct sim_mem *sim_mem_insert(struct sim_pdd *pdd, struct sim_bo *bo, u64 va, u32 flags,
			       struct dma_buf *dmabuf, int want_id, int *id);
int sim_mem_map(struct sim_mem *mem, struct sim_pdd *pdd);
int sim_mem_unmap(struct sim_mem *mem, struct sim_pdd *pdd);
void sim_mem_remove(struct sim_mem *mem, int id);
struct sim_bo *sim_mem_make_bo(struct sim_pdd *pdd, u32 flags, u64 size, u64 user_addr);
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
void sim_event_memory_fault(struct sim_pdd *pdd, u64 va, bool write);
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

/* behaves.c */
enum sim_kernel sim_behaves_as(void);

/* svm.c */
void sim_svm_init(struct sim_process *p);
void sim_svm_free(struct sim_process *p);
int sim_svm_unmapped(struct sim_process *p, const struct mmu_notifier_range *range);
bool sim_svm_args_fit(const void *data, unsigned int size);
bool sim_svm_covers(struct sim_process *p, u64 va, u64 size);
int sim_kfd_svm(struct sim_process *p, void *data);

/* criu_svm.c */
void sim_criu_drop_svm(struct sim_process *p);

/* topology.c */
int sim_topology_init(struct device *kfd);
void sim_topology_fini(void);

/* process_sysfs.c */
int sim_procfs_init(struct device *kfd);
void sim_procfs_fini(void);
void sim_procfs_add(struct sim_process *p);
void sim_procfs_remove(struct sim_process *p);

/* objects.c */
void sim_objects_init(struct dentry *dir);

/* debugfs.c */
void sim_debugfs_init(void);
void sim_debugfs_fini(void);

#endif
