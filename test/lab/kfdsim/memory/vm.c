// SPDX-License-Identifier: GPL-2.0 OR MIT
/* GPU virtual address space: which BO is where. */
#include "kfdsim.h"
#include "drm/later_uapi.h"

/* Both are positions in 64 bits; interval_tree uses unsigned long. */
static_assert(sizeof(unsigned long) == 8);

void sim_vm_init(struct sim_vm *vm, struct sim_gpu *gpu)
{
	vm->gpu = gpu;
	mutex_init(&vm->handle_lock);
	mutex_init(&vm->lock);
	mutex_init(&vm->ctx_lock);
	vm->maps = RB_ROOT_CACHED;
	vm->bo_vas = RB_ROOT;
	idr_init_base(&vm->ctxs, 1);
	idr_init_base(&vm->lists, 1);
	atomic64_inc(&sim_count.vms);
}

/* The first mapping that meets a range, and the one behind it. Need vm->lock. */
struct sim_map *sim_map_first(struct sim_vm *vm, u64 start, u64 last)
{
	struct interval_tree_node *it = interval_tree_iter_first(&vm->maps, start, last);

	return it ? container_of(it, struct sim_map, it) : NULL;
}

struct sim_map *sim_map_next(struct sim_map *map, u64 start, u64 last)
{
	struct interval_tree_node *it = interval_tree_iter_next(&map->it, start, last);

	return it ? container_of(it, struct sim_map, it) : NULL;
}

static void sim_map_insert(struct sim_vm *vm, struct sim_map *map)
{
	interval_tree_insert(&map->it, &vm->maps);
	list_add(&map->link, &map->bo_va->maps);
	atomic64_inc(&sim_count.maps);
}

static void sim_map_free(struct sim_vm *vm, struct sim_map *map)
{
	interval_tree_remove(&map->it, &vm->maps);
	list_del(&map->link);
	atomic64_dec(&sim_count.maps);
	sim_bo_put(map->bo);
	kfree(map);
}

/* All handles are closed, and with the last one of a BO its mappings went. */
void sim_vm_fini(struct sim_vm *vm)
{
	WARN_ON(!RB_EMPTY_ROOT(&vm->bo_vas));
	idr_destroy(&vm->ctxs);
	idr_destroy(&vm->lists);
	atomic64_dec(&sim_count.vms);
}

static int sim_bo_va_cmp(const void *key, const struct rb_node *node)
{
	const struct sim_bo *bo = rb_entry(node, struct sim_bo_va, node)->bo;

	return key < (const void *)bo ? -1 : key > (const void *)bo;
}

static int sim_bo_va_cmp_node(struct rb_node *new, const struct rb_node *node)
{
	return sim_bo_va_cmp(rb_entry(new, struct sim_bo_va, node)->bo, node);
}

/* NULL if bo is not known here. Needs vm->lock. */
struct sim_bo_va *sim_bo_va_find(struct sim_vm *vm, struct sim_bo *bo)
{
	struct rb_node *node = rb_find(bo, &vm->bo_vas, sim_bo_va_cmp);

	return node ? rb_entry(node, struct sim_bo_va, node) : NULL;
}

/* Make bo known here once more; whoever does so keeps a reference to bo until detach. */
int sim_vm_attach(struct sim_vm *vm, struct sim_bo *bo)
{
	struct sim_bo_va *bo_va, *new = kzalloc(sizeof(*new), GFP_KERNEL);

	if (!new)
		return -ENOMEM;
	mutex_lock(&vm->lock);
	bo_va = sim_bo_va_find(vm, bo);
	if (!bo_va) {
		new->bo = bo;
		INIT_LIST_HEAD(&new->maps);
		rb_find_add(&new->node, &vm->bo_vas, sim_bo_va_cmp_node);
		swap(bo_va, new);
	}
	bo_va->refs++;
	mutex_unlock(&vm->lock);
	kfree(new);
	return 0;
}

/* The reverse; the last one takes all mappings of bo out of this address space. */
void sim_vm_detach(struct sim_vm *vm, struct sim_bo *bo)
{
	struct sim_map *map, *next;
	struct sim_bo_va *bo_va;

	mutex_lock(&vm->lock);
	bo_va = sim_bo_va_find(vm, bo);
	if (!WARN_ON(!bo_va) && !--bo_va->refs) {
		list_for_each_entry_safe(map, next, &bo_va->maps, link)
			sim_map_free(vm, map);
		rb_erase(&bo_va->node, &vm->bo_vas);
		kfree(bo_va);
	}
	mutex_unlock(&vm->lock);
}

/* How many mappings bo has here; the first max of them are written to entries. */
u32 sim_vm_list_maps(struct sim_vm *vm, struct sim_bo *bo, struct sim_gem_vm_entry *entries,
		     u32 max)
{
	struct sim_bo_va *bo_va;
	struct sim_map *map;
	u32 n = 0;

	mutex_lock(&vm->lock);
	bo_va = sim_bo_va_find(vm, bo);
	if (bo_va) {
		list_for_each_entry(map, &bo_va->maps, link) {
			if (n < max) {
				entries[n].addr = map->it.start;
				entries[n].size = map->it.last - map->it.start + 1;
				entries[n].offset = map->offset;
				entries[n].flags = map->flags;
			}
			n++;
		}
	}
	mutex_unlock(&vm->lock);
	return n;
}

static int sim_vm_check(struct sim_bo *bo, u64 va, u64 size, u64 offset)
{
	if (!size || (va | size | offset) & ~PAGE_MASK)
		return -EINVAL;
	if (va < SIM_GPUVM_BASE || va + size <= va || va + size > SIM_GPUVM_END)
		return -EINVAL;
	if (offset + size <= offset || (bo && offset + size > bo->base.size))
		return -EINVAL;
	return 0;
}

/*
 * Map size bytes of bo at va; kept: see struct sim_map. -EINVAL for a bad range or one already in use, -ENOENT if bo is
 * not attached (its last handle was closed meanwhile).
 */
int sim_vm_map(struct sim_vm *vm, struct sim_bo *bo, u64 va, u64 size, u64 offset, u32 flags, bool kept)
{
	struct sim_map *map;
	int ret = sim_vm_check(bo, va, size, offset);

	if (ret)
		return ret;
	map = kzalloc(sizeof(*map), GFP_KERNEL);
	if (!map)
		return -ENOMEM;
	map->it.start = va;
	map->it.last = va + size - 1;
	map->bo = bo;
	map->offset = offset;
	map->flags = flags;
	map->kept = kept;
	mutex_lock(&vm->lock);
	map->bo_va = sim_bo_va_find(vm, bo);
	if (!map->bo_va)
		ret = -ENOENT;
	else if (sim_map_first(vm, va, va + size - 1))
		ret = -EINVAL;
	if (!ret) {
		sim_bo_get(bo);
		sim_map_insert(vm, map);
	}
	mutex_unlock(&vm->lock);
	if (ret)
		kfree(map);
	return ret;
}

/* Remove the mapping of bo that starts at va; -ENOENT if there is none. */
int sim_vm_unmap(struct sim_vm *vm, struct sim_bo *bo, u64 va)
{
	struct sim_map *map;
	int ret = -ENOENT;

	mutex_lock(&vm->lock);
	map = sim_map_first(vm, va, va);
	if (map && map->it.start == va && map->bo == bo) {
		sim_map_free(vm, map);
		ret = 0;
	}
	mutex_unlock(&vm->lock);
	return ret;
}

static struct sim_map *sim_map_part(const struct sim_map *map, u64 start, u64 last)
{
	struct sim_map *part = kzalloc(sizeof(*part), GFP_KERNEL);

	if (part) {
		part->it.start = start;
		part->it.last = last;
		part->bo_va = map->bo_va;
		part->bo = map->bo;
		part->offset = map->offset + (start - map->it.start);
		part->flags = map->flags;
		part->kept = map->kept;
		sim_bo_get(part->bo);
	}
	return part;
}

/* Empty a range; mappings that stick out of it keep their outer parts. */
int sim_vm_clear(struct sim_vm *vm, u64 va, u64 size)
{
	struct sim_map *map, *before, *after;
	u64 last = va + size - 1;
	int ret = sim_vm_check(NULL, va, size, 0);

	if (ret)
		return ret;
	mutex_lock(&vm->lock);
	while ((map = sim_map_first(vm, va, last))) {
		before = after = NULL;
		if (map->it.start < va)
			before = sim_map_part(map, map->it.start, va - 1);
		if (map->it.last > last)
			after = sim_map_part(map, last + 1, map->it.last);
		if ((map->it.start < va && !before) || (map->it.last > last && !after)) {
			/* Leave the mapping whole: the caller sees -ENOMEM and no change. */
			if (before)
				sim_bo_put(before->bo);
			kfree(before);
			if (after)
				sim_bo_put(after->bo);
			kfree(after);
			ret = -ENOMEM;
			break;
		}
		sim_map_free(vm, map);
		if (before)
			sim_map_insert(vm, before);
		if (after)
			sim_map_insert(vm, after);
	}
	mutex_unlock(&vm->lock);
	return ret;
}

bool sim_vm_overlaps(struct sim_vm *vm, u64 va, u64 size)
{
	bool overlaps;

	mutex_lock(&vm->lock);
	overlaps = sim_map_first(vm, va, va + size - 1);
	mutex_unlock(&vm->lock);
	return overlaps;
}

/* cursor.c looks mappings up through this: bo comes back referenced. */
int sim_vm_resolve(struct sim_vm *vm, u64 va, bool write, struct sim_bo **bo, u64 *offset,
		   u64 *left)
{
	u32 need = write ? AMDGPU_VM_PAGE_WRITEABLE : AMDGPU_VM_PAGE_READABLE;
	struct sim_map *map;
	int ret = -EFAULT;

	va = sim_va(va);
	mutex_lock(&vm->lock);
	map = sim_map_first(vm, va, va);
	if (map && map->flags & need) {
		sim_bo_get(map->bo);
		*bo = map->bo;
		*offset = map->offset + (va - map->it.start);
		*left = map->it.last - va + 1;
		ret = 0;
	}
	mutex_unlock(&vm->lock);
	return ret;
}
