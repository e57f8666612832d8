/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Buffer objects, GPU address spaces, KFD memory and SVM ranges. */
#ifndef KFDSIM_MEMORY_H
#define KFDSIM_MEMORY_H

#include "gpus/gpus.h"
#include "kfd/process_types.h"

struct sim_gem_vm_entry;

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

/* Where an address as the GPU has it is in the page tables; U64_MAX, where nothing is, for one between the halves. */
static inline u64 sim_va(u64 va)
{
	return va >= SIM_GPUVM_HOLE && va < SIM_GPUVM_HIGH ? U64_MAX : va & SIM_GPUVM_MASK;
}

/* vm.c */
void sim_vm_init(struct sim_vm *vm, struct sim_gpu *gpu);
void sim_vm_fini(struct sim_vm *vm);
int sim_vm_attach(struct sim_vm *vm, struct sim_bo *bo);
void sim_vm_detach(struct sim_vm *vm, struct sim_bo *bo);
u32 sim_vm_list_maps(struct sim_vm *vm, struct sim_bo *bo, struct sim_gem_vm_entry *entries,
		     u32 max);
int sim_vm_map(struct sim_vm *vm, struct sim_bo *bo, u64 va, u64 size, u64 offset, u32 flags, bool kept);
struct sim_map *sim_map_first(struct sim_vm *vm, u64 start, u64 last);
struct sim_map *sim_map_next(struct sim_map *map, u64 start, u64 last);
struct sim_bo_va *sim_bo_va_find(struct sim_vm *vm, struct sim_bo *bo);
int sim_vm_unmap(struct sim_vm *vm, struct sim_bo *bo, u64 va);
int sim_vm_clear(struct sim_vm *vm, u64 va, u64 size);
bool sim_vm_overlaps(struct sim_vm *vm, u64 va, u64 size);
int sim_vm_resolve(struct sim_vm *vm, u64 va, bool write, struct sim_bo **bo, u64 *offset,
		   u64 *left);

/* vm_queue.c */
struct sim_bo *sim_vm_queue_get(struct sim_vm *vm, u64 va, u64 size);
void sim_vm_queue_put(struct sim_vm *vm, struct sim_bo *bo);
bool sim_vm_has_queue(struct sim_vm *vm, struct sim_bo *bo);

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

/* limits.c */
u64 sim_gtt_limit(void);
int sim_limit_charge(struct sim_gpu *gpu, enum sim_bo_kind kind, u64 size);
void sim_limit_uncharge(struct sim_gpu *gpu, enum sim_bo_kind kind, u64 size);
void sim_limit_wait_release(void);
int sim_kfd_available_memory(struct sim_process *p, void *data);

/* kfd_handles.c */
void sim_kfd_handles_init(struct sim_gpu *gpu);
void sim_kfd_handles_fini(struct sim_gpu *gpu);
int sim_kfd_handle_create(struct sim_gpu *gpu, struct sim_bo *bo, u32 *number);
struct sim_bo *sim_kfd_handle_import(struct sim_gpu *gpu, struct dma_buf *dmabuf, u32 *number);
struct dma_buf *sim_kfd_handle_export(struct sim_gpu *gpu, u32 number, u32 flags);
void sim_kfd_handle_delete(struct sim_gpu *gpu, u32 number, struct sim_bo *bo);

/* Where memory was imported from. */
struct sim_mem_import {
	struct dma_buf *dmabuf;		/* NULL: not kept */
	u32 gem_handle;			/* 0: none */
};

/* memory.c */
struct sim_mem *sim_mem_lookup(struct sim_process *p, u64 handle);
struct sim_mem *sim_mem_insert(struct sim_pdd *pdd, struct sim_bo *bo, u64 va, u32 flags,
			       const struct sim_mem_import *from, int want_id, int *id);
struct dma_buf *sim_mem_dmabuf(struct sim_mem *mem, u32 flags);
void sim_mem_remove(struct sim_mem *mem, int id);
struct sim_bo *sim_mem_make_bo(struct sim_pdd *pdd, u32 flags, u64 size, u64 user_addr);
u64 sim_mem_mmap_offset(struct sim_mem *mem, u32 gpu_id);
int sim_kfd_alloc_memory(struct sim_process *p, void *data);
int sim_kfd_free_memory(struct sim_process *p, void *data);

/* dmabuf.c */
int sim_kfd_get_dmabuf_info(struct sim_process *p, void *data);
int sim_kfd_import_dmabuf(struct sim_process *p, void *data);
int sim_kfd_export_dmabuf(struct sim_process *p, void *data);

/* mem_map.c */
int sim_mem_map(struct sim_mem *mem, struct sim_pdd *pdd);
int sim_mem_unmap(struct sim_mem *mem, struct sim_pdd *pdd);
int sim_kfd_map_memory(struct sim_process *p, void *data);
int sim_kfd_unmap_memory(struct sim_process *p, void *data);

/* svm_ranges.c */
void sim_svm_init(struct sim_process *p);
void sim_svm_free(struct sim_process *p);
int sim_svm_unmapped(struct sim_process *p, const struct mmu_notifier_range *range);

/* svm.c */
bool sim_svm_args_fit(const void *data, unsigned int size);
bool sim_svm_covers(struct sim_process *p, u64 va, u64 size);
int sim_kfd_svm(struct sim_process *p, void *data);

/* svm_access.c */
bool sim_svm_holds(struct sim_pdd *pdd, u64 va, u64 size);
struct sim_bo *sim_svm_bo(struct sim_vm *vm, u64 va, bool write, u64 *left);

#endif
