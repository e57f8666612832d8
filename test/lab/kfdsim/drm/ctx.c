// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Submission contexts with their fences. They have ids of their own in each file, the lowest free one from 1 on. */
#include <linux/capability.h>

#include "kfdsim.h"

#define SIM_MAX_CTX		4096

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
	sim_ctx_begin(ctx);
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
		sim_ctx_answer(ctx, args->in.op, &args->out);
		sim_ctx_put(ctx);
		return 0;
	default:
		return -EINVAL;
	}
}

/*
 * 0, or the error of the last submission on a ring once that is over: a ring that had one takes no more
 * (amdgpu_ctx.c:amdgpu_ctx_get_entity @ 6.12.117). Needs ctx->lock.
 */
static int sim_ctx_ring_error(const struct sim_ctx *ctx, u32 ring)
{
	u64 seq = ctx->rings[ring].seq, last = seq % SIM_FENCES_PER_RING;

	return seq && ctx->rings[ring].done[last] <= ktime_get_ns() ? ctx->rings[ring].error[last] : 0;
}

/*
 * The engine of the next submission on a ring: as long as the last one is not over its engine, then the one that is
 * free first (drm/scheduler/sched_entity.c:drm_sched_entity_select_rq @ 6.12.117).
 */
u32 sim_ctx_engine(struct sim_ctx *ctx, const struct sim_gpu *gpu, u32 ring)
{
	u32 i, best = 0, engine;
	u64 seq;

	for (i = 1; i < sim_num_engines(gpu); i++)
		if (sim_engine_busy_until(gpu, i) < sim_engine_busy_until(gpu, best))
			best = i;
	/* One that is free is as good as any other: the first. */
	if (sim_engine_busy_until(gpu, 0) <= ktime_get_ns())
		best = 0;
	spin_lock_irq(&ctx->lock);
	seq = ctx->rings[ring].seq;
	if (!seq || ctx->rings[ring].done[seq % SIM_FENCES_PER_RING] <= ktime_get_ns())
		ctx->rings[ring].engine = best;
	engine = ctx->rings[ring].engine;
	spin_unlock_irq(&ctx->lock);
	return engine;
}

/* A submission that is remembered still has failed. */
void sim_ctx_set_error(struct sim_ctx *ctx, u32 ring, u64 seq, int error)
{
	unsigned long flags;

	spin_lock_irqsave(&ctx->lock, flags);
	if (seq + SIM_FENCES_PER_RING > ctx->rings[ring].seq)
		ctx->rings[ring].error[seq % SIM_FENCES_PER_RING] = error;
	spin_unlock_irqrestore(&ctx->lock, flags);
}

int sim_ctx_error(struct sim_ctx *ctx, u32 ring)
{
	int ret;

	spin_lock_irq(&ctx->lock);
	ret = sim_ctx_ring_error(ctx, ring);
	spin_unlock_irq(&ctx->lock);
	return ret;
}

/*
 * When does submission seq of a ring end, and how? *done in ns, *error as -errno. -EINVAL for an unknown context,
 * ring or a submission that was not made yet; the error of a ring that had one. seq ~0 is the latest one.
 */
int sim_ctx_fence(struct sim_vm *vm, u32 ctx_id, u32 ip, u32 instance, u32 ring, u64 seq,
		  u64 *done, int *error)
{
	struct sim_ctx *ctx;
	int ret;

	if (ip != AMDGPU_HW_IP_DMA || instance || ring >= SIM_DMA_RINGS)
		return -EINVAL;
	ctx = sim_ctx_get(vm, ctx_id);
	if (!ctx)
		return -EINVAL;
	*done = 0;
	*error = 0;
	spin_lock_irq(&ctx->lock);
	ret = sim_ctx_ring_error(ctx, ring);
	if (seq == ~0ULL)
		seq = ctx->rings[ring].seq;
	if (!ret && seq > ctx->rings[ring].seq) {
		ret = -EINVAL;
	} else if (!ret && seq && seq + SIM_FENCES_PER_RING > ctx->rings[ring].seq) {
		*done = ctx->rings[ring].done[seq % SIM_FENCES_PER_RING];
		*error = ctx->rings[ring].error[seq % SIM_FENCES_PER_RING];
	}
	spin_unlock_irq(&ctx->lock);
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
	if (sim_submission_over(done) && !error)
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

void sim_ctx_free_all(struct sim_vm *vm)
{
	struct sim_ctx *ctx;
	int id;

	idr_for_each_entry(&vm->ctxs, ctx, id)
		sim_ctx_put(ctx);
}
