// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Lists of the BOs that submissions use. They have ids of their own in each file, the lowest free one from 1 on. */
#include <linux/uaccess.h>

#include "kfdsim.h"

#define SIM_MAX_LIST_ENTRIES	(1u << 20)

static unsigned int userptr_page_ns;
module_param(userptr_page_ns, uint, 0644);
MODULE_PARM_DESC(userptr_page_ns, "ns that a submission takes for each page of a userptr BO it lists (default 0)");

static void sim_bo_list_release(struct kref *ref)
{
	struct sim_bo_list *list = container_of(ref, struct sim_bo_list, ref);
	u32 i;

	for (i = 0; i < list->nr; i++)
		sim_bo_put(list->bos[i]);
	kvfree(list);
}

void sim_bo_list_put(struct sim_bo_list *list)
{
	if (list)
		kref_put(&list->ref, sim_bo_list_release);
}

/* NULL for an unknown handle. */
struct sim_bo_list *sim_bo_list_get(struct sim_vm *vm, u32 handle)
{
	struct sim_bo_list *list;

	mutex_lock(&vm->ctx_lock);
	list = idr_find(&vm->lists, handle);
	if (list)
		kref_get(&list->ref);
	mutex_unlock(&vm->ctx_lock);
	return list;
}

/* A list of the handles in nr entries of size bytes at ptr. -ENOENT: no handle, -EPERM: memory of another process. */
struct sim_bo_list *sim_bo_list_read(struct drm_file *file, u64 ptr, u32 nr, u32 size)
{
	struct drm_amdgpu_bo_list_entry entry = {};
	struct drm_gem_object *obj;
	struct sim_bo_list *list;
	int ret = 0;
	u32 i;

	if (nr > SIM_MAX_LIST_ENTRIES)
		return ERR_PTR(-EINVAL);
	list = kvzalloc(struct_size(list, bos, nr), GFP_KERNEL);
	if (!list)
		return ERR_PTR(-ENOMEM);
	kref_init(&list->ref);
	for (i = 0; i < nr && !ret; i++) {
		if (copy_from_user(&entry, u64_to_user_ptr(ptr + (u64)i * size),
				   min_t(u32, size, sizeof(entry)))) {
			ret = -EFAULT;
			break;
		}
		obj = drm_gem_object_lookup(file, entry.bo_handle);
		if (!obj) {
			ret = -ENOENT;
			break;
		}
		list->nr = i + 1;
		list->bos[i] = to_sim_bo(obj);
		if (list->bos[i]->kind == SIM_BO_USERPTR && list->bos[i]->mm != current->mm)
			ret = -EPERM;
	}
	if (!ret)
		return list;
	sim_bo_list_put(list);
	return ERR_PTR(ret);
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
		ret = PTR_ERR_OR_ZERO(old);
		break;
	case AMDGPU_BO_LIST_OP_DESTROY:
		/* What is not there is no error: amdgpu_bo_list.c:amdgpu_bo_list_destroy @ 6.12.117. */
		old = idr_remove(&vm->lists, handle);
		break;
	default:
		ret = -EINVAL;
	}
	mutex_unlock(&vm->ctx_lock);
	if (ret < 0) {
		sim_bo_list_put(list);
		return ret;
	}
	sim_bo_list_put(old);
	memset(args, 0, sizeof(*args));
	args->out.list_handle = handle;
	return 0;
}

/* The BOs of a list are busy until done (ns). */
void sim_bo_list_mark(struct sim_bo_list *list, u64 done)
{
	u32 i;

	for (i = 0; i < list->nr; i++)
		if (atomic64_read(&list->bos[i]->busy_until) < done)
			atomic64_set(&list->bos[i]->busy_until, done);
}

/*
 * The caller waits until all pages of all userptr BOs have been looked up, as every submission has it done
 * (amdgpu_cs.c:amdgpu_cs_parser_bos @ 6.12.117).
 */
int sim_bo_list_look_up(const struct sim_bo_list *list)
{
	u64 pages = 0;
	u32 i;

	for (i = 0; i < list->nr; i++)
		if (list->bos[i]->kind == SIM_BO_USERPTR)
			pages += list->bos[i]->base.size >> PAGE_SHIFT;
	return sim_sleep_until(ktime_get_ns() + pages * READ_ONCE(userptr_page_ns), U64_MAX);
}

bool sim_bo_list_has(const struct sim_bo_list *list, const struct sim_bo *bo)
{
	u32 i;

	for (i = 0; i < list->nr; i++)
		if (list->bos[i] == bo)
			return true;
	return false;
}

void sim_bo_lists_free(struct sim_vm *vm)
{
	struct sim_bo_list *list;
	int id;

	idr_for_each_entry(&vm->lists, list, id)
		sim_bo_list_put(list);
}
