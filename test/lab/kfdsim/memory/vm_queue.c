// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Mappings that user queues are made of. */
#include "kfdsim.h"

/*
 * The BO, referenced, of the mapping that begins with the page of va and has this size (less than a page: any). It
 * belongs to a queue then. NULL if there is none: kfd_queue.c:kfd_queue_buffer_get @ 6.12.117.
 */
struct sim_bo *sim_vm_queue_get(struct sim_vm *vm, u64 va, u64 size)
{
	struct sim_bo *bo = NULL;
	struct sim_map *map;
	u64 pages = size >> PAGE_SHIFT;

	va &= PAGE_MASK;
	mutex_lock(&vm->lock);
	map = sim_map_first(vm, va, va);
	if (map && map->it.start == va && (!pages || map->it.last - va + 1 == pages << PAGE_SHIFT)) {
		bo = map->bo;
		sim_bo_get(bo);
		map->bo_va->queue_refs++;
	}
	mutex_unlock(&vm->lock);
	return bo;
}

/* The reverse. Its mappings may have gone before, by the GEM handle of who owns the file. */
void sim_vm_queue_put(struct sim_vm *vm, struct sim_bo *bo)
{
	struct sim_bo_va *bo_va;

	mutex_lock(&vm->lock);
	bo_va = sim_bo_va_find(vm, bo);
	if (bo_va && bo_va->queue_refs)
		bo_va->queue_refs--;
	mutex_unlock(&vm->lock);
	sim_bo_put(bo);
}

bool sim_vm_has_queue(struct sim_vm *vm, struct sim_bo *bo)
{
	struct sim_bo_va *bo_va;
	bool has;

	mutex_lock(&vm->lock);
	bo_va = sim_bo_va_find(vm, bo);
	has = bo_va && bo_va->queue_refs;
	mutex_unlock(&vm->lock);
	return has;
}
