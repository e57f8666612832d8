/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The render node: its ioctls, submissions and their fences, dma-bufs. */
#ifndef KFDSIM_DRM_RENDER_NODE_H
#define KFDSIM_DRM_RENDER_NODE_H

#include "kfd/process_types.h"

struct sim_fence;
struct sim_gem_op;

/* drm.c */
int sim_drm_init(struct sim_gpu *gpu);
void sim_drm_behave(const struct sim_kernel *kernel);
void sim_drm_fini(struct sim_gpu *gpu);
bool sim_is_drm_file(struct file *file);
bool sim_gpu_visible(struct sim_gpu *gpu);

/* info.c */
int sim_info_ioctl(struct drm_device *dev, void *data, struct drm_file *file);

/* gem.c */
int sim_gem_create_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_mmap_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_userptr_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_va_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_op_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_metadata_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
int sim_gem_wait_idle_ioctl(struct drm_device *dev, void *data, struct drm_file *file);

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
struct sim_bo *sim_bo_from_dmabuf(struct dma_buf *dmabuf);

/* ctx.c */
int sim_ctx_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
struct sim_ctx *sim_ctx_get(struct sim_vm *vm, u32 id);
void sim_ctx_put(struct sim_ctx *ctx);
void sim_ctx_set_error(struct sim_ctx *ctx, u32 ring, u64 seq, int error);
u32 sim_ctx_engine(struct sim_ctx *ctx, const struct sim_gpu *gpu, u32 ring);
int sim_ctx_error(struct sim_ctx *ctx, u32 ring);
int sim_ctx_fence(struct sim_vm *vm, u32 ctx_id, u32 ip, u32 instance, u32 ring, u64 seq,
		  u64 *done, int *error);
struct dma_fence *sim_ctx_fence_get(struct sim_vm *vm, const struct drm_amdgpu_fence *which);
void sim_ctx_free_all(struct sim_vm *vm);

/* ctx_query.c */
void sim_ctx_begin(struct sim_ctx *ctx);
void sim_ctx_answer(struct sim_ctx *ctx, u32 op, union drm_amdgpu_ctx_out *out);

/* bo_list.c */
int sim_bo_list_ioctl(struct drm_device *dev, void *data, struct drm_file *file);
struct sim_bo_list *sim_bo_list_get(struct sim_vm *vm, u32 handle);
struct sim_bo_list *sim_bo_list_read(struct drm_file *file, u64 ptr, u32 nr, u32 size);
void sim_bo_list_put(struct sim_bo_list *list);
void sim_bo_list_mark(struct sim_bo_list *list, u64 done);
int sim_bo_list_look_up(const struct sim_bo_list *list);
bool sim_bo_list_has(const struct sim_bo_list *list, const struct sim_bo *bo);
void sim_bo_lists_free(struct sim_vm *vm);

/* residency.c */
bool sim_is_resident(struct sim_vm *vm, const struct sim_bo_list *list, u64 va, u64 bytes, u64 *fault_va);
u64 sim_packet_ns(const struct sim_sdma *s, const u32 *packet);
bool sim_packet_resident(struct sim_sdma *s, const struct sim_bo_list *list, const u32 *packet);

/* cs.c */
int sim_cs_ioctl(struct drm_device *dev, void *data, struct drm_file *file);

/* submission.c */
struct sim_submission *sim_submission_alloc(u32 nr_ibs);
void sim_submission_free(struct sim_submission *s);
void sim_submission_queue(struct sim_submission *s);
void sim_submission_fail(struct sim_submission *s, int error);
bool sim_submission_over(u64 when);
int sim_submission_wait(u64 when, u64 deadline);
void sim_submissions_flush(struct sim_vm *vm);
void sim_submissions_cancel(struct sim_vm *vm);
int sim_submissions_init(void);
void sim_submissions_fini(void);

/* ib.c */
int sim_ib_time(struct sim_sdma *sdma, const struct sim_bo_list *bos, u64 va, u32 bytes);
int sim_ib_execute(struct sim_sdma *sdma, const struct sim_bo_list *bos, u64 va, u32 bytes);

/* wait.c */
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

#endif
