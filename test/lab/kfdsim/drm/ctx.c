// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Submission contexts with their fences, and BO lists. Both have ids of their own in each file,
 * the lowest free one from 1 on.
 */
#include <linux/capability.h>
#include <linux/uaccess.h>

#include "kfdsim.h"

#define SIM_MAX_CTX		4096
#define SIM_MAX_LIST_ENTRIES	(1u << 20)

static void sim_ctx_release(struct kref *ref)
{
	atomic64_dec(&sim_count.contexts);
	kfree(container_of(ref, struct sim_ctx, ref));
}

void sim_ctx_put(struct sim_ctx *ctx)
{
	kref_put(&ctx->ref, sim_ctx_release);
}

struct sim_ctx *sim_ctx_get(struct sim_vm *vm, u32 id)
{
	struct sim_ctx *ctx;

	mutex_lock(&vm->ctx_lock);
	ctx = idr_find(&vm->ctxs, id);
	if (ctx)
		kref_get(&ctx->ref);
	mutex_unlock(&vm->ctx_lock);
	return ctx;
}

/* A priority that does not exist counts as normal; above that one needs the right to. */
static bool sim_ctx_may_have(s32 priority)
{
	if (priority != AMDGPU_CTX_PRIORITY_HIGH && priority != AMDGPU_CTX_PRIORITY_VERY_HIGH)
		return true;
	return capable(CAP_SYS_NICE);
}

static int sim_ctx_alloc(struct sim_vm *vm, union drm_amdgpu_ctx *args)
{
	struct sim_ctx *ctx;
	int id;

	if (!sim_ctx_may_have(args->in.priority)) {
		/* The answer lies over the question, and is written: amdgpu_ctx.c:amdgpu_ctx_alloc @ 6.12.117. */
		args->out.alloc.ctx_id = 0;
		return -EACCES;
	}
	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL);
	if (!ctx)
		return -ENOMEM;
	kref_init(&ctx->ref);
	spin_lock_init(&ctx->lock);
	ctx->fence_context = dma_fence_context_alloc(ARRAY_SIZE(ctx->rings));
	atomic64_inc(&sim_count.contexts);
	mutex_lock(&vm->ctx_lock);
	id = idr_alloc(&vm->ctxs, ctx, 1, SIM_MAX_CTX, GFP_KERNEL);
	mutex_unlock(&vm->ctx_lock);
	if (id < 0) {
		sim_ctx_put(ctx);
		return id;
	}
	memset(args, 0, sizeof(*args));
	args->out.alloc.ctx_id = id;
	return 0;
}

static int sim_ctx_free(struct sim_vm *vm, u32 id)
{
	struct sim_ctx *ctx;

	mutex_lock(&vm->ctx_lock);
	ctx = idr_remove(&vm->ctxs, id);
	mutex_unlock(&vm->ctx_lock);
	if (!ctx)
		return -EINVAL;
	sim_ctx_put(ctx);
	return 0;
}

int sim_ctx_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_vm *vm = file->driver_priv;
	union drm_amdgpu_ctx *args = data;
	struct sim_ctx *ctx;

	switch (args->in.op) {
	case AMDGPU_CTX_OP_ALLOC_CTX:
		return sim_ctx_alloc(vm, args);
	case AMDGPU_CTX_OP_FREE_CTX:
		return sim_ctx_free(vm, args->in.ctx_id);
	case AMDGPU_CTX_OP_QUERY_STATE:
	case AMDGPU_CTX_OP_QUERY_STATE2:
	case AMDGPU_CTX_OP_GET_STABLE_PSTATE:
		ctx = sim_ctx_get(vm, args->in.ctx_id);
		if (!ctx)
			return -EINVAL;
		sim_ctx_put(ctx);
		/* Nothing is ever reset, no power state is ever pinned: all zero. */
		memset(args, 0, sizeof(*args));
		return 0;
	default:
		return -EINVAL;
	}
}

/*
 * When does submission seq of a ring end, and how? *done in ns, *error as -errno. -EINVAL for an unknown context,
 * ring or a submission that was not made yet. seq ~0 is the latest one.
 */
int sim_ctx_fence(struct sim_vm *vm, u32 ctx_id, u32 ip, u32 instance, u32 ring, u64 seq,
		  u64 *done, int *error)
{
	struct sim_ctx *ctx;
	int ret = 0;

	if (ip != AMDGPU_HW_IP_DMA || instance || ring >= sim_num_engines(vm->gpu))
		return -EINVAL;
	ctx = sim_ctx_get(vm, ctx_id);
	if (!ctx)
		return -EINVAL;
	*done = 0;
	*error = 0;
	spin_lock(&ctx->lock);
	if (seq == ~0ULL)
		seq = ctx->rings[ring].seq;
	if (seq > ctx->rings[ring].seq) {
		ret = -EINVAL;
	} else if (seq && seq + SIM_FENCES_PER_RING > ctx->rings[ring].seq) {
		*done = ctx->rings[ring].done[seq % SIM_FENCES_PER_RING];
		*error = ctx->rings[ring].error[seq % SIM_FENCES_PER_RING];
	}
	spin_unlock(&ctx->lock);
	sim_ctx_put(ctx);
	return ret;
}

/* The same submission as a fence, one reference for the caller; one that is over is a stub. */
struct dma_fence *sim_ctx_fence_get(struct sim_vm *vm, const struct drm_amdgpu_fence *which)
{
	u64 done, seq = which->seq_no, context;
	struct sim_fence *fence;
	struct sim_ctx *ctx;
	int ret, error;

	ret = sim_ctx_fence(vm, which->ctx_id, which->ip_type, which->ip_instance, which->ring,
			    seq, &done, &error);
	if (ret)
		return ERR_PTR(ret);
	if (done <= ktime_get_ns() && !error)
		return dma_fence_get_stub();
	ctx = sim_ctx_get(vm, which->ctx_id);
	if (!ctx)
		return ERR_PTR(-EINVAL);
	if (seq == ~0ULL)
		seq = READ_ONCE(ctx->rings[which->ring].seq);
	context = ctx->fence_context + which->ring;
	sim_ctx_put(ctx);
	fence = sim_fence_alloc();
	return fence ? sim_fence_start(fence, context, seq, done, error) : ERR_PTR(-ENOMEM);
}

static void sim_bo_list_free(struct sim_bo_list *list)
{
	u32 i;

	for (i = 0; i < list->nr; i++)
		sim_bo_put(list->bos[i]);
	kvfree(list);
}

static struct sim_bo_list *sim_bo_list_read(struct drm_file *file, u64 ptr, u32 nr, u32 size)
{
	struct drm_amdgpu_bo_list_entry entry = {};
	struct drm_gem_object *obj;
	struct sim_bo_list *list;
	u32 i;

	if (nr > SIM_MAX_LIST_ENTRIES)
		return ERR_PTR(-EINVAL);
	list = kvzalloc(struct_size(list, bos, nr), GFP_KERNEL);
	if (!list)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < nr; i++) {
		if (copy_from_user(&entry, u64_to_user_ptr(ptr + (u64)i * size),
				   min_t(u32, size, sizeof(entry)))) {
			sim_bo_list_free(list);
			return ERR_PTR(-EFAULT);
		}
		obj = drm_gem_object_lookup(file, entry.bo_handle);
		if (!obj) {
			sim_bo_list_free(list);
			return ERR_PTR(-ENOENT);
		}
		list->nr = i + 1;
		list->bos[i] = to_sim_bo(obj);
		if (list->bos[i]->kind == SIM_BO_USERPTR && list->bos[i]->mm != current->mm) {
			sim_bo_list_free(list);
			return ERR_PTR(-EPERM);
		}
	}
	return list;
}

int sim_bo_list_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_vm *vm = file->driver_priv;
	union drm_amdgpu_bo_list *args = data;
	struct sim_bo_list *list = NULL, *old = NULL;
	u32 handle = args->in.list_handle;
	int ret = 0;

	if (args->in.operation == AMDGPU_BO_LIST_OP_CREATE ||
	    args->in.operation == AMDGPU_BO_LIST_OP_UPDATE) {
		list = sim_bo_list_read(file, args->in.bo_info_ptr, args->in.bo_number,
					args->in.bo_info_size);
		if (IS_ERR(list))
			return PTR_ERR(list);
	}
	mutex_lock(&vm->ctx_lock);
	switch (args->in.operation) {
	case AMDGPU_BO_LIST_OP_CREATE:
		ret = idr_alloc(&vm->lists, list, 1, 0, GFP_KERNEL);
		handle = ret;
		break;
	case AMDGPU_BO_LIST_OP_UPDATE:
		old = idr_replace(&vm->lists, list, handle);
		ret = IS_ERR(old) ? PTR_ERR(old) : 0;
		break;
	case AMDGPU_BO_LIST_OP_DESTROY:
		/* Like the real driver: destroying what is not there is no error. */
		old = idr_remove(&vm->lists, handle);
		break;
	default:
		ret = -EINVAL;
	}
	mutex_unlock(&vm->ctx_lock);
	if (ret < 0) {
		if (list)
			sim_bo_list_free(list);
		return ret;
	}
	if (old)
		sim_bo_list_free(old);
	memset(args, 0, sizeof(*args));
	args->out.list_handle = handle;
	return 0;
}

static void sim_bo_list_mark(struct sim_bo_list *list, u64 done)
{
	u32 i;

	for (i = 0; i < list->nr; i++)
		if (atomic64_read(&list->bos[i]->busy_until) < done)
			atomic64_set(&list->bos[i]->busy_until, done);
}

/* The BOs of a list are busy until done (ns). -ENOENT for an unknown list. */
int sim_bo_list_check(struct drm_file *file, u32 handle, u64 done)
{
	struct sim_vm *vm = file->driver_priv;
	struct sim_bo_list *list;

	mutex_lock(&vm->ctx_lock);
	list = idr_find(&vm->lists, handle);
	if (list)
		sim_bo_list_mark(list, done);
	mutex_unlock(&vm->ctx_lock);
	return list ? 0 : -ENOENT;
}

/* The same for a list given inline with a submission. */
int sim_bo_entries_check(struct drm_file *file, u64 ptr, u32 nr, u32 entry_size, u64 done)
{
	struct sim_bo_list *list = sim_bo_list_read(file, ptr, nr, entry_size);

	if (IS_ERR(list))
		return PTR_ERR(list);
	sim_bo_list_mark(list, done);
	sim_bo_list_free(list);
	return 0;
}

void sim_ctx_free_all(struct sim_vm *vm)
{
	struct sim_bo_list *list;
	struct sim_ctx *ctx;
	int id;

	idr_for_each_entry(&vm->ctxs, ctx, id)
		sim_ctx_put(ctx);
	idr_for_each_entry(&vm->lists, list, id)
		sim_bo_list_free(list);
}
