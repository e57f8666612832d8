// SPDX-License-Identifier: GPL-2.0 OR MIT
/* A KFD process on each of its GPUs: by which id, with which VM. */
#include <linux/file.h>

#include "kfdsim.h"

/* The GPU that ioctls of p call user_gpu_id, or NULL. RESTORE changes ids, under p->lock. */
struct sim_pdd *sim_pdd_by_id(struct sim_process *p, u32 user_gpu_id)
{
	struct sim_pdd *pdd;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		if (READ_ONCE(pdd->user_gpu_id) == user_gpu_id)
			return pdd;
	return NULL;
}

/*
 * The same for what needs the VM of that GPU. -EINVAL: p knows no such GPU; -ENODEV: there is
 * no VM yet; -ESRCH: the mm of p is gone. Needs p->lock.
 */
struct sim_pdd *sim_pdd_with_vm(struct sim_process *p, u32 user_gpu_id)
{
	struct sim_pdd *pdd = sim_pdd_by_id(p, user_gpu_id);

	if (!pdd)
		return ERR_PTR(-EINVAL);
	if (p->dead)
		return ERR_PTR(-ESRCH);
	return pdd->vm ? pdd : ERR_PTR(-ENODEV);
}

/* NULL if p may not see this GPU. */
struct sim_pdd *sim_pdd_by_gpu(struct sim_process *p, struct sim_gpu *gpu)
{
	struct sim_pdd *pdd;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		if (pdd->gpu == gpu)
			return pdd;
	return NULL;
}

bool sim_process_has_vm(struct sim_process *p)
{
	struct sim_pdd *pdd;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		if (pdd->vm)
			return true;
	return false;
}

/*
 * Make the VM of a render-node file the compute VM on that GPU. Caller holds p->lock and has
 * checked that there is none yet. -EINVAL: not a render node of this GPU, or the VM of
 * another KFD process.
 */
int sim_pdd_bind_vm(struct sim_pdd *pdd, int drm_fd)
{
	struct file *file = fget(drm_fd);
	struct drm_file *priv;
	struct sim_vm *vm;

	if (!file)
		return -EINVAL;
	if (!sim_is_drm_file(file))
		goto err;
	priv = file->private_data;
	vm = priv->driver_priv;
	if (vm->gpu != pdd->gpu)
		goto err;
	mutex_lock(&vm->lock);
	if (vm->compute) {
		mutex_unlock(&vm->lock);
		goto err;
	}
	vm->compute = true;
	mutex_unlock(&vm->lock);
	pdd->drm_file = file;
	pdd->drm_priv = priv;
	pdd->vm = vm;
	return 0;

err:
	fput(file);
	return -EINVAL;
}
