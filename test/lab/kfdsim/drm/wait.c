// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Waiting for submissions: WAIT_CS, WAIT_FENCES. */
#include <linux/uaccess.h>

#include "kfdsim.h"

#define SIM_MAX_FENCES 1024

/* The uapi gives absolute ns; negative as s64 means for ever. */
u64 sim_deadline(u64 timeout)
{
	return (s64)timeout < 0 ? U64_MAX : timeout;
}

int sim_wait_cs_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_wait_cs *args = data;
	int ret, error;
	u64 done;

	ret = sim_ctx_fence(file->driver_priv, args->in.ctx_id, args->in.ip_type,
			    args->in.ip_instance, args->in.ring, args->in.handle, &done, &error);
	if (ret)
		return ret;
	ret = sim_submission_wait(done, sim_deadline(args->in.timeout));
	if (ret && ret != -ETIME)
		return ret;
	/* How it ended is known by now. */
	if (!ret) {
		ret = sim_ctx_fence(file->driver_priv, args->in.ctx_id, args->in.ip_type,
				    args->in.ip_instance, args->in.ring, args->in.handle, &done, &error);
		if (ret || error)
			return ret ?: error;
	}
	memset(args, 0, sizeof(*args));
	args->out.status = ret == -ETIME;
	return 0;
}

/* How those ended that were waited for: all, or the first. */
static int sim_fences_error(struct drm_file *file, struct drm_amdgpu_fence __user *user, u32 n, bool all, u32 first)
{
	struct drm_amdgpu_fence fence;
	int ret = 0, error = 0;
	u64 done;
	u32 i;

	for (i = all ? 0 : first; i < (all ? n : first + 1) && !ret && !error; i++) {
		if (copy_from_user(&fence, user + i, sizeof(fence)))
			return -EFAULT;
		ret = sim_ctx_fence(file->driver_priv, fence.ctx_id, fence.ip_type, fence.ip_instance, fence.ring,
				    fence.seq_no, &done, &error);
	}
	return ret ?: error;
}

int sim_wait_fences_ioctl(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_wait_fences *args = data;
	struct drm_amdgpu_fence __user *user = u64_to_user_ptr(args->in.fences);
	u32 i, n = args->in.fence_count, first = 0;
	bool all = args->in.wait_all;
	struct drm_amdgpu_fence fence;
	u64 done, when = 0;
	int ret, error;

	if (!n || n > SIM_MAX_FENCES)
		return -EINVAL;
	for (i = 0; i < n; i++) {
		if (copy_from_user(&fence, user + i, sizeof(fence)))
			return -EFAULT;
		ret = sim_ctx_fence(file->driver_priv, fence.ctx_id, fence.ip_type,
				    fence.ip_instance, fence.ring, fence.seq_no, &done, &error);
		if (ret)
			return ret;
		if (!i || (all ? done > when : done < when)) {
			when = done;
			first = i;
		}
	}
	ret = sim_submission_wait(when, sim_deadline(args->in.timeout_ns));
	if (ret && ret != -ETIME)
		return ret;
	error = ret ? 0 : sim_fences_error(file, user, n, all, first);
	memset(args, 0, sizeof(*args));
	/* Unlike WAIT_CS, 1 means signalled here. */
	args->out.status = !ret;
	args->out.first_signaled = all ? 0 : first;
	return error;
}
