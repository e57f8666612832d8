// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Syncobjs around submissions; the objects themselves and their ioctls are the DRM core's. */
#include <linux/dma-fence-chain.h>
#include <linux/dma-fence-unwrap.h>
#include <linux/file.h>
#include <linux/sync_file.h>
#include <linux/uaccess.h>
#include <drm/drm_syncobj.h>

#include "kfdsim.h"

#define SIM_MAX_SYNCOBJS	65536

static bool sim_chunk_is_timeline(const struct drm_amdgpu_cs_chunk *chunk)
{
	return chunk->chunk_id == AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT ||
	       chunk->chunk_id == AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL;
}

/* Bytes of an entry of a chunk. */
static size_t sim_chunk_entry_size(const struct drm_amdgpu_cs_chunk *chunk)
{
	return sim_chunk_is_timeline(chunk) ? sizeof(struct drm_amdgpu_cs_chunk_syncobj) :
					      sizeof(struct drm_amdgpu_cs_chunk_sem);
}

/* Entries of a chunk; a rest too short for one is ignored: amdgpu_cs.c:amdgpu_cs_p2_syncobj_in @ 6.12.117. */
static u32 sim_chunk_entries(const struct drm_amdgpu_cs_chunk *chunk)
{
	return (u64)chunk->length_dw * 4 / sim_chunk_entry_size(chunk);
}

/* The one number a plain syncobj has is what the longer entry begins with. */
static_assert(offsetof(struct drm_amdgpu_cs_chunk_syncobj, handle) == 0);
static_assert(sizeof(struct drm_amdgpu_cs_chunk_sem) == sizeof(u32));

/* A plain syncobj is read as point 0 of a timeline. */
static int sim_chunk_entry(const struct drm_amdgpu_cs_chunk *chunk, u32 i,
			   struct drm_amdgpu_cs_chunk_syncobj *entry)
{
	size_t size = sim_chunk_entry_size(chunk);

	memset(entry, 0, sizeof(*entry));
	return copy_from_user(entry, u64_to_user_ptr(chunk->chunk_data + i * size), size) ?
	       -EFAULT : 0;
}

/*
 * The submission begins when fence is over. Its bytes move right now, though: a fence whose
 * end is not known, another driver's, is waited for here.
 */
static int sim_sync_after(struct sim_sync *s, struct dma_fence *fence)
{
	struct dma_fence_unwrap cursor;
	struct dma_fence *part;
	int ret = 0;
	u64 done;

	dma_fence_unwrap_for_each(part, &cursor, fence) {
		/* The cursor holds the chain; every part is looked at, also after an error. */
		if (ret)
			continue;
		if (!sim_fence_done(part, &done))
			s->begin = max(s->begin, done);
		else if (!dma_fence_is_signaled(part))
			ret = dma_fence_wait(part, true);
	}
	return ret;
}

/*
 * SYNCOBJ_IN and SYNCOBJ_TIMELINE_WAIT. -ENOENT: no such syncobj; -EINVAL: it has no fence,
 * or not that point yet.
 */
int sim_sync_wait_chunk(struct sim_sync *s, struct drm_file *file,
			const struct drm_amdgpu_cs_chunk *chunk)
{
	struct drm_amdgpu_cs_chunk_syncobj entry;
	u32 i, n = sim_chunk_entries(chunk);
	struct dma_fence *fence;
	int ret = 0;

	for (i = 0; i < n && !ret; i++) {
		ret = sim_chunk_entry(chunk, i, &entry);
		if (!ret)
			ret = drm_syncobj_find_fence(file, entry.handle, entry.point, entry.flags,
						     &fence);
		if (ret)
			break;
		ret = sim_sync_after(s, fence);
		dma_fence_put(fence);
	}
	return ret;
}

/*
 * SYNCOBJ_OUT and SYNCOBJ_TIMELINE_SIGNAL, one chunk of them at most. -EINVAL: a second
 * chunk, or no such syncobj.
 */
int sim_sync_signal_chunk(struct sim_sync *s, struct drm_file *file,
			  const struct drm_amdgpu_cs_chunk *chunk)
{
	struct drm_amdgpu_cs_chunk_syncobj entry;
	u32 i, n = sim_chunk_entries(chunk);
	struct sim_sync_out *out;
	int ret;

	if (s->signals)
		return -EINVAL;
	s->signals = true;
	if (n > SIM_MAX_SYNCOBJS)
		return -ENOMEM;
	s->outs = kvcalloc(n, sizeof(*s->outs), GFP_KERNEL);
	if (!s->outs)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		ret = sim_chunk_entry(chunk, i, &entry);
		if (ret)
			return ret;
		out = &s->outs[i];
		out->syncobj = drm_syncobj_find(file, entry.handle);
		if (!out->syncobj)
			return -EINVAL;
		s->nr = i + 1;
		out->point = entry.point;
		if (!entry.point)
			continue;
		out->chain = dma_fence_chain_alloc();
		if (!out->chain)
			return -ENOMEM;
	}
	return 0;
}

/* The submission was made: its syncobjs are signalled with fence. */
void sim_sync_signal(struct sim_sync *s, struct dma_fence *fence)
{
	u32 i;

	for (i = 0; i < s->nr; i++) {
		struct sim_sync_out *out = &s->outs[i];

		if (out->chain)
			drm_syncobj_add_point(out->syncobj, out->chain, fence, out->point);
		else
			drm_syncobj_replace_fence(out->syncobj, fence);
		out->chain = NULL;
	}
}

void sim_sync_free(struct sim_sync *s)
{
	u32 i;

	for (i = 0; i < s->nr; i++) {
		dma_fence_chain_free(s->outs[i].chain);
		drm_syncobj_put(s->outs[i].syncobj);
	}
	kvfree(s->outs);
}

static int sim_fence_to_sync_file(struct dma_fence *fence)
{
	struct sync_file *sync_file;
	int fd = get_unused_fd_flags(O_CLOEXEC);

	if (fd < 0)
		return fd;
	sync_file = sync_file_create(fence);
	if (!sync_file) {
		put_unused_fd(fd);
		return -ENOMEM;
	}
	fd_install(fd, sync_file->file);
	return fd;
}

/* A submission as a syncobj, a descriptor of one, or a sync file. */
int sim_fence_to_handle_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_fence_to_handle *args = data;
	struct drm_syncobj *syncobj;
	struct dma_fence *fence;
	u32 what = args->in.what;
	int ret;

	fence = sim_ctx_fence_get(file->driver_priv, &args->in.fence);
	if (IS_ERR(fence))
		return PTR_ERR(fence);
	switch (what) {
	case AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ:
	case AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD:
		ret = drm_syncobj_create(&syncobj, 0, fence);
		if (ret)
			break;
		if (what == AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ)
			ret = drm_syncobj_get_handle(file, syncobj, &args->out.handle);
		else
			ret = drm_syncobj_get_fd(syncobj, (int *)&args->out.handle);
		drm_syncobj_put(syncobj);
		break;
	case AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD:
		ret = sim_fence_to_sync_file(fence);
		if (ret >= 0) {
			args->out.handle = ret;
			ret = 0;
		}
		break;
	default:
		ret = -EINVAL;
	}
	dma_fence_put(fence);
	return ret;
}
