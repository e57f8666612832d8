// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Command submission to the SDMA rings. It is executed in submission.c, waiting for it is in wait.c. */
#include <linux/uaccess.h>

#include "kfdsim.h"

#define SIM_MAX_CHUNKS		1024
#define SIM_MAX_IB_DWORDS	0xfffff		/* amdgpu_cs.c:amdgpu_cs_ib_packet_size_max_dw @ 6.12.117 */

struct sim_job {
	struct drm_file *file;
	struct sim_ctx *ctx;
	u32 nr_chunks, nr_ibs;
	struct drm_amdgpu_cs_chunk *chunks;
	struct drm_amdgpu_cs_chunk_ib first;	/* the ring all IBs of the job go to */
	struct sim_bo_list *bos;
	struct sim_sync sync;
	struct sim_fence *fence;		/* for sync.outs, not started yet */
	struct sim_submission *submission;	/* not queued yet */
};

static int sim_job_read(struct sim_job *job, union drm_amdgpu_cs *args)
{
	u64 __user *list = u64_to_user_ptr(args->in.chunks);
	u64 ptr;
	u32 i;

	if (!args->in.num_chunks || args->in.num_chunks > SIM_MAX_CHUNKS)
		return -EINVAL;
	job->nr_chunks = args->in.num_chunks;
	job->chunks = kcalloc(job->nr_chunks, sizeof(*job->chunks), GFP_KERNEL);
	if (!job->chunks)
		return -ENOMEM;
	for (i = 0; i < job->nr_chunks; i++)
		if (get_user(ptr, list + i) ||
		    copy_from_user(&job->chunks[i], u64_to_user_ptr(ptr), sizeof(*job->chunks)))
			return -EFAULT;
	return 0;
}

static int sim_job_ib(struct sim_job *job, struct drm_amdgpu_cs_chunk *chunk,
		      struct drm_amdgpu_cs_chunk_ib *ib)
{
	if (chunk->length_dw < sizeof(*ib) / 4)
		return -EINVAL;
	if (copy_from_user(ib, u64_to_user_ptr(chunk->chunk_data), sizeof(*ib)))
		return -EFAULT;
	if (ib->ip_type != AMDGPU_HW_IP_DMA || ib->ip_instance || ib->ring >= SIM_DMA_RINGS)
		return -EINVAL;
	if (!ib->ib_bytes || ib->ib_bytes & 3 || ib->ib_bytes / 4 > SIM_MAX_IB_DWORDS)
		return -EINVAL;
	if (job->nr_ibs++ && ib->ring != job->first.ring)
		return -EINVAL;
	job->first = *ib;
	return 0;
}

static int sim_job_dependencies(struct sim_job *job, struct drm_amdgpu_cs_chunk *chunk)
{
	struct drm_amdgpu_cs_chunk_dep __user *user = u64_to_user_ptr(chunk->chunk_data);
	u32 i, n = (u64)chunk->length_dw * 4 / sizeof(*user);
	struct drm_amdgpu_cs_chunk_dep dep;
	int ret, error;
	u64 done;

	for (i = 0; i < n; i++) {
		if (copy_from_user(&dep, user + i, sizeof(dep)))
			return -EFAULT;
		ret = sim_ctx_fence(job->file->driver_priv, dep.ctx_id, dep.ip_type,
				    dep.ip_instance, dep.ring, dep.handle, &done, &error);
		if (ret)
			return ret;
		job->sync.begin = max(job->sync.begin, done);
	}
	return 0;
}

/* One list at most, by its handle or in a chunk (amdgpu_cs.c:amdgpu_cs_pass1, amdgpu_cs_parser_bos @ 6.12.117). */
static int sim_job_bo_handles(struct sim_job *job, struct drm_amdgpu_cs_chunk *chunk)
{
	struct drm_amdgpu_bo_list_in in;
	struct sim_bo_list *list;

	if (chunk->length_dw < sizeof(in) / 4 || job->bos)
		return -EINVAL;
	if (copy_from_user(&in, u64_to_user_ptr(chunk->chunk_data), sizeof(in)))
		return -EFAULT;
	list = sim_bo_list_read(job->file, in.bo_info_ptr, in.bo_number, in.bo_info_size);
	if (IS_ERR(list))
		return PTR_ERR(list);
	job->bos = list;
	return 0;
}

/* The list, which may be empty. */
static int sim_job_bo_list(struct sim_job *job, u32 handle)
{
	struct sim_bo_list *list;

	if (handle && job->bos)
		return -EINVAL;
	if (job->bos)
		return 0;
	list = handle ? sim_bo_list_get(job->file->driver_priv, handle) : sim_bo_list_read(job->file, 0, 0, 0);
	if (IS_ERR(list))
		return PTR_ERR(list);
	job->bos = list;
	return list ? 0 : -ENOENT;
}

/* Everything that can be wrong with the arguments, before any byte moves. */
static int sim_job_check(struct sim_job *job, u32 bo_list)
{
	struct drm_amdgpu_cs_chunk_ib ib;
	int ret = 0;
	u32 i;

	for (i = 0; i < job->nr_chunks && !ret; i++) {
		switch (job->chunks[i].chunk_id) {
		case AMDGPU_CHUNK_ID_IB:
			ret = sim_job_ib(job, &job->chunks[i], &ib);
			break;
		case AMDGPU_CHUNK_ID_DEPENDENCIES:
		case AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES:
			ret = sim_job_dependencies(job, &job->chunks[i]);
			break;
		case AMDGPU_CHUNK_ID_SYNCOBJ_IN:
		case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT:
			ret = sim_sync_wait_chunk(&job->sync, job->file, &job->chunks[i]);
			break;
		case AMDGPU_CHUNK_ID_SYNCOBJ_OUT:
		case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL:
			ret = sim_sync_signal_chunk(&job->sync, job->file, &job->chunks[i]);
			break;
		case AMDGPU_CHUNK_ID_BO_HANDLES:
			ret = sim_job_bo_handles(job, &job->chunks[i]);
			break;
		default:
			/* User fences are not modelled. */
			ret = -EINVAL;
		}
	}
	if (!ret && !job->nr_ibs)
		ret = -EINVAL;
	if (!ret)
		ret = sim_job_bo_list(job, bo_list);
	if (!ret && job->sync.nr) {
		job->fence = sim_fence_alloc();
		if (!job->fence)
			ret = -ENOMEM;
	}
	return ret;
}

/* What the engine will have to do, and how long that takes. */
static int sim_job_prepare(struct sim_job *job, struct sim_gpu *gpu)
{
	struct sim_submission *s = sim_submission_alloc(job->nr_ibs);
	struct sim_sdma sdma = { .vm = job->file->driver_priv };
	struct drm_amdgpu_cs_chunk_ib ib;
	int ret = s ? 0 : -ENOMEM;
	u32 i, n = 0;

	if (ret)
		return ret;
	job->submission = s;
	s->nr_ibs = job->nr_ibs;
	s->vm = sdma.vm;
	s->ring = job->first.ring;
	s->engine = sdma.engine = sim_ctx_engine(job->ctx, gpu, s->ring);
	for (i = 0; i < job->nr_chunks && n < s->nr_ibs && !ret; i++) {
		if (job->chunks[i].chunk_id != AMDGPU_CHUNK_ID_IB)
			continue;
		ret = sim_job_ib(job, &job->chunks[i], &ib);
		if (ret)
			break;
		ret = sim_ib_time(&sdma, job->bos, ib.va_start, ib.ib_bytes);
		s->ibs[n].va = ib.va_start;
		s->ibs[n++].bytes = ib.ib_bytes;
	}
	s->ns = sdma.ns;
	return ret;
}

/* Wait until the fence slot the next submission needs has been signalled. */
static int sim_job_wait_slot(struct sim_job *job, u32 ring)
{
	struct sim_ctx *ctx = job->ctx;
	u64 old = 0, seq;

	spin_lock_irq(&ctx->lock);
	seq = ctx->rings[ring].seq + 1;
	if (seq > SIM_FENCES_PER_RING)
		old = ctx->rings[ring].done[seq % SIM_FENCES_PER_RING];
	spin_unlock_irq(&ctx->lock);
	return sim_submission_wait(old, U64_MAX);
}

/* Its number on the ring; those who wait by fences have one. */
static u64 sim_job_fence(struct sim_job *job, struct sim_submission *sub)
{
	struct sim_ctx *ctx = job->ctx;
	u64 slot;

	spin_lock_irq(&ctx->lock);
	sub->seq = ++ctx->rings[sub->ring].seq;
	slot = sub->seq % SIM_FENCES_PER_RING;
	ctx->rings[sub->ring].done[slot] = sub->done;
	ctx->rings[sub->ring].error[slot] = 0;
	spin_unlock_irq(&ctx->lock);
	if (job->fence) {
		sub->fence = sim_fence_start(job->fence, ctx->fence_context + sub->ring, sub->seq, sub->done, 0);
		job->fence = NULL;
	}
	return sub->seq;
}

/* The engine gets it. Returns its number. */
static u64 sim_job_submit(struct sim_job *job, struct sim_gpu *gpu)
{
	struct sim_submission *sub = job->submission;
	struct dma_fence *fence;
	u64 seq;

	job->submission = NULL;
	sub->done = sim_engine_run(gpu, sub->engine, job->sync.begin, sub->ns);
	sim_engine_note_cs(gpu, sub->engine, sub->done);
	sim_bo_list_mark(job->bos, sub->done);
	seq = sim_job_fence(job, sub);
	kref_get(&job->ctx->ref);
	sub->ctx = job->ctx;
	swap(sub->bos, job->bos);
	fence = sub->fence ? dma_fence_get(sub->fence) : NULL;
	sim_submission_queue(sub);
	if (fence) {
		sim_sync_signal(&job->sync, fence);
		dma_fence_put(fence);
	}
	return seq;
}

int sim_cs_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_cs *args = data;
	struct sim_job job = { .file = file };
	struct sim_gpu *gpu = sim_gpu_of(dev);
	u64 seq;
	int ret;

	job.ctx = sim_ctx_get(file->driver_priv, args->in.ctx_id);
	if (!job.ctx)
		return -EINVAL;
	ret = sim_job_read(&job, args);
	if (!ret)
		ret = sim_job_check(&job, args->in.bo_list_handle);
	if (!ret)
		ret = sim_ctx_error(job.ctx, job.first.ring);
	if (!ret)
		ret = sim_job_wait_slot(&job, job.first.ring);
	if (!ret)
		ret = sim_bo_list_look_up(job.bos);
	/* The look-up may have taken a while. */
	job.sync.begin = max(job.sync.begin, ktime_get_ns() + sim_submit_ns());
	if (!ret)
		ret = sim_job_prepare(&job, gpu);
	if (!ret) {
		seq = sim_job_submit(&job, gpu);
		memset(args, 0, sizeof(*args));
		args->out.handle = seq;
	}
	sim_submission_free(job.submission);
	sim_fence_discard(job.fence);
	sim_sync_free(&job.sync);
	sim_bo_list_put(job.bos);
	kfree(job.chunks);
	sim_ctx_put(job.ctx);
	return ret;
}
