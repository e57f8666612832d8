// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * CRIU_OP RESTORE. As in the real driver a failure leaves what was done so far; only descriptors of BOs are taken back,
 * if it was one of them.
 */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/uaccess.h>

#include "criu/criu.h"
#include "kfdsim.h"

/* The next len bytes of the blob. -EINVAL where it ends, -EFAULT where it cannot be read. */
int sim_load_read(struct sim_load *l, void *dst, u64 len)
{
	if (len > l->args->priv_data_size - l->offset)
		return -EINVAL;
	if (copy_from_user(dst, u64_to_user_ptr(l->args->priv_data + l->offset), len))
		return -EFAULT;
	l->offset += len;
	return 0;
}

static int sim_load_process(struct sim_load *l)
{
	struct sim_criu_process process;
	int ret = sim_load_read(l, &process, sizeof(process));

	if (ret)
		return ret;
	if (process.version != SIM_CRIU_VERSION)
		return -EINVAL;
	if (process.xnack_mode && !sim_process_may_retry(l->p))
		return -EPERM;
	l->p->xnack = process.xnack_mode;
	return 0;
}

static int sim_load_device(struct sim_load *l, u32 index)
{
	struct kfd_criu_device_bucket __user *user = u64_to_user_ptr(l->args->devices);
	struct kfd_criu_device_bucket bucket;
	struct sim_gpu *gpu;
	struct sim_pdd *pdd;

	if (copy_from_user(&bucket, user + index, sizeof(bucket)))
		return -EFAULT;
	gpu = bucket.user_gpu_id ? sim_gpu_by_id(bucket.actual_gpu_id) : NULL;
	pdd = gpu ? sim_pdd_by_gpu(l->p, gpu) : NULL;
	if (!pdd)
		return -EINVAL;
	if (pdd->vm)
		return -EINVAL;
	/* The id is changed even if the VM below cannot be had: kfd_chardev.c:criu_restore_devices @ 6.12.117. */
	WRITE_ONCE(pdd->user_gpu_id, bucket.user_gpu_id);
	return sim_pdd_bind_vm(pdd, bucket.drm_fd);
}

static int sim_load_devices(struct sim_load *l)
{
	u64 size = l->p->nr_pdds * sizeof(struct sim_criu_device);
	u32 i;
	int ret;

	if (l->args->num_devices != l->p->nr_pdds || size > l->args->priv_data_size - l->offset)
		return -EINVAL;
	for (i = 0; i < l->p->nr_pdds; i++) {
		ret = sim_load_device(l, i);
		if (ret)
			return ret;
	}
	l->offset += size;
	return 0;
}

static int sim_load_mappings(struct sim_mem *mem, const struct sim_criu_bo *priv)
{
	struct sim_pdd *pdd;
	u32 i;
	int ret;

	for (i = 0; i < mem->pdd->p->nr_pdds && priv->mapped_gpuids[i]; i++) {
		pdd = sim_pdd_by_id(mem->pdd->p, priv->mapped_gpuids[i]);
		ret = pdd ? sim_mem_map(mem, pdd) : -EINVAL;
		if (ret)
			return ret;
	}
	return 0;
}

static int sim_load_bo(struct sim_load *l, u32 i)
{
	const struct sim_criu_bo *priv = (struct sim_criu_bo *)(l->bos + i * (u64)sim_criu_bo_bytes(l->p));
	struct sim_pdd *pdd = sim_pdd_by_id(l->p, l->buckets[i].gpu_id);
	struct kfd_criu_bo_bucket *b = &l->buckets[i];
	struct dma_buf *dmabuf;
	struct sim_mem *mem;
	struct sim_bo *bo;
	int id, ret;

	if (!pdd)
		return -ENODEV;
	if (priv->idr_handle > INT_MAX)
		return -EINVAL;
	bo = sim_mem_make_bo(pdd, b->alloc_flags, b->size, priv->user_addr);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	mem = sim_mem_insert(pdd, bo, b->addr, b->alloc_flags, NULL, priv->idr_handle, &id);
	sim_bo_put(bo);
	if (IS_ERR(mem))
		return PTR_ERR(mem);
	/* The actual id is encoded here on all kernels, also where mmap decodes the user's. */
	if (bo->kind != SIM_BO_USERPTR)
		b->restored_offset = sim_mem_mmap_offset(mem, pdd->gpu->gpu_id);
	ret = sim_load_mappings(mem, priv);
	if (ret || !bo->pages)
		return ret;
	dmabuf = sim_criu_dmabuf(mem, O_RDWR);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	l->dmabufs[i] = dmabuf;
	ret = get_unused_fd_flags(0);
	if (ret < 0)
		return ret;
	b->dmabuf_fd = ret;
	return 0;
}

/* All private data is read before the first BO is made. */
static int sim_load_read_bos(struct sim_load *l)
{
	u32 i, n = l->args->num_bos;

	l->buckets = kvmalloc_array(n + 1ULL, sizeof(*l->buckets), GFP_KERNEL | __GFP_NOWARN);
	l->bos = kvmalloc_array(n + 1ULL, sim_criu_bo_bytes(l->p), GFP_KERNEL | __GFP_NOWARN);
	l->dmabufs = kvcalloc(n + 1ULL, sizeof(*l->dmabufs), GFP_KERNEL | __GFP_NOWARN);
	if (!l->buckets || !l->bos || !l->dmabufs)
		return -ENOMEM;
	if (copy_from_user(l->buckets, u64_to_user_ptr(l->args->bos), n * sizeof(*l->buckets)))
		return -EFAULT;
	for (i = 0; i < n; i++)
		l->buckets[i].dmabuf_fd = KFD_INVALID_FD;
	return sim_load_read(l, l->bos, n * (u64)sim_criu_bo_bytes(l->p));
}

static int sim_load_bos(struct sim_load *l)
{
	u32 i, n = l->args->num_bos;
	int ret;

	if ((u64)n * sim_criu_bo_bytes(l->p) > l->args->priv_data_size - l->offset)
		return -EINVAL;
	/* From here on RESUME has something to resume. */
	l->p->restoring = true;
	ret = sim_load_read_bos(l);
	for (i = 0; i < n && !ret; i++)
		ret = sim_fault_criu(SIM_FAULT_RESTORED_BO) ?: sim_load_bo(l, i);
	if (!ret && copy_to_user(u64_to_user_ptr(l->args->bos), l->buckets,
				 n * sizeof(*l->buckets)))
		ret = -EFAULT;
	return ret;
}

static int sim_load_event(struct sim_load *l)
{
	struct sim_criu_event priv;
	struct sim_event *ev;
	int ret = sim_load_read(l, &priv, sizeof(priv));

	if (ret)
		return ret;
	if (priv.user_handle) {
		ret = sim_event_set_page(l->p, priv.user_handle);
		if (ret)
			return ret;
	}
	ev = kzalloc(sizeof(*ev), GFP_KERNEL);
	if (!ev)
		return -ENOMEM;
	ev->type = priv.type;
	ev->auto_reset = priv.auto_reset;
	ev->signaled = priv.signaled;
	/* The age is not in the blob: it begins at 0, so the first set gives it that of a new event. */
	switch (priv.type) {
	case KFD_IOC_EVENT_MEMORY:
		memcpy(&ev->memory, priv.data, sizeof(ev->memory));
		break;
	case KFD_IOC_EVENT_HW_EXCEPTION:
		memcpy(&ev->hw, priv.data, sizeof(ev->hw));
		break;
	case KFD_IOC_EVENT_SIGNAL:
	case KFD_IOC_EVENT_DEBUG_EVENT:
		if (priv.event_id < KFD_SIGNAL_EVENT_LIMIT)
			break;
		fallthrough;
	default:
		kfree(ev);
		return -EINVAL;
	}
	if (priv.event_id > INT_MAX)
		ret = -EINVAL;
	else
		ret = sim_event_insert(l->p, ev, priv.event_id);
	if (ret)
		kfree(ev);
	return ret;
}

static int sim_load_objects(struct sim_load *l)
{
	int ret = 0;
	u32 i, type;

	for (i = 0; i < l->args->num_objects && !ret; i++) {
		ret = sim_fault_criu(SIM_FAULT_OBJECT) ?: sim_load_read(l, &type, sizeof(type));
		if (ret)
			break;
		l->offset -= sizeof(type);
		switch (type) {
		case SIM_CRIU_QUEUE:
			ret = sim_criu_load_queue(l);
			break;
		case SIM_CRIU_EVENT:
			ret = sim_load_event(l);
			break;
		case SIM_CRIU_SVM:
			ret = sim_criu_load_svm(l);
			break;
		default:
			ret = -EINVAL;
		}
	}
	return ret;
}

static void sim_load_finish(struct sim_load *l, bool ok)
{
	u32 i;

	for (i = 0; l->buckets && l->dmabufs && i < l->args->num_bos; i++) {
		if (!l->dmabufs[i])
			continue;
		if (ok) {
			fd_install(l->buckets[i].dmabuf_fd, l->dmabufs[i]->file);
			continue;
		}
		dma_buf_put(l->dmabufs[i]);
		if (l->buckets[i].dmabuf_fd != KFD_INVALID_FD)
			put_unused_fd(l->buckets[i].dmabuf_fd);
	}
	kvfree(l->buckets);
	kvfree(l->bos);
	kvfree(l->dmabufs);
}

int sim_criu_restore(struct sim_process *p, struct kfd_ioctl_criu_args *args)
{
	struct sim_load l = { .p = p, .args = args };
	int ret;

	if ((args->num_bos && !args->bos) || !args->devices || !args->num_devices ||
	    !args->priv_data || !args->priv_data_size)
		return -EINVAL;
	mutex_lock(&p->lock);
	if (p->dead || p->mm != current->mm) {
		mutex_unlock(&p->lock);
		return -ESRCH;
	}
	/* Stays evicted until RESUME, also after a failure. */
	sim_process_evict(p);
	ret = sim_load_process(&l);
	if (!ret)
		ret = sim_load_devices(&l);
	if (!ret)
		ret = sim_load_bos(&l);
	/* The descriptors are there from now on, whatever becomes of the rest: kfd_chardev.c:criu_restore_bos @ 6.12.117. */
	sim_load_finish(&l, !ret);
	if (!ret)
		ret = sim_load_objects(&l);
	if (!ret && l.offset != args->priv_data_size)
		ret = -EINVAL;
	mutex_unlock(&p->lock);
	return ret;
}
