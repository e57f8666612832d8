// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Access to GPU addresses from any context.
 *
 * VRAM and GTT are read and written in place. Userptr pages are pinned in batches from
 * the owner's mm, so it does not matter whose context a packet is executed in.
 */
#include <linux/sched/mm.h>

#include "kfdsim.h"

static bool strict_last_byte = true;
module_param(strict_last_byte, bool, 0644);
MODULE_PARM_DESC(strict_last_byte, "a copy whose last byte alone is beyond a mapping faults (default yes)");

void sim_cursor_init(struct sim_cursor *c, struct sim_vm *vm, u64 va, bool write)
{
	c->vm = vm;
	c->va = va;
	c->write = write;
	c->bo = NULL;
	c->left = 0;
	c->mm = NULL;
	c->nr_pins = 0;
}

static void sim_cursor_unpin(struct sim_cursor *c)
{
	if (c->nr_pins)
		unpin_user_pages_dirty_lock(c->pins, c->nr_pins, c->write);
	atomic64_sub(c->nr_pins, &sim_count.pinned_pages);
	c->nr_pins = 0;
	if (c->mm) {
		/* The last user may go here: its teardown must not run in the worker. */
		mmput_async(c->mm);
		c->mm = NULL;
	}
}

void sim_cursor_end(struct sim_cursor *c)
{
	sim_cursor_unpin(c);
	if (c->bo)
		sim_bo_put(c->bo);
	c->bo = NULL;
	c->left = 0;
}

static int sim_cursor_pin(struct sim_cursor *c, u64 index, u64 want)
{
	struct sim_bo *bo = c->bo;
	u64 n = (offset_in_page(c->offset) + min(want, c->left) + PAGE_SIZE - 1) >> PAGE_SHIFT;
	long got;

	if (c->nr_pins && index >= c->pin_first && index < c->pin_first + c->nr_pins)
		return 0;
	sim_cursor_unpin(c);
	if (c->write && bo->read_only)
		return -EFAULT;
	if (READ_ONCE(bo->lost) || !mmget_not_zero(bo->mm))
		return -EFAULT;
	c->mm = bo->mm;
	mmap_read_lock(c->mm);
	got = pin_user_pages_remote(c->mm, bo->user_addr + (index << PAGE_SHIFT),
				    min_t(u64, n, SIM_CURSOR_PAGES), c->write ? FOLL_WRITE : 0,
				    c->pins, NULL);
	mmap_read_unlock(c->mm);
	if (got <= 0)
		return -EFAULT;
	c->nr_pins = got;
	atomic64_add(got, &sim_count.pinned_pages);
	c->pin_first = index;
	return 0;
}

/* A BO that is mapped there, or a range of SVM. */
static int sim_cursor_resolve(struct sim_cursor *c)
{
	int ret = sim_vm_resolve(c->vm, c->va, c->write, &c->bo, &c->offset, &c->left);

	if (!ret)
		return 0;
	c->bo = sim_svm_bo(c->vm, c->va, c->write, &c->left);
	c->offset = offset_in_page(c->va);
	return c->bo ? 0 : ret;
}

/*
 * Kernel pointer for the current address, valid until advance or end; *len is at most
 * want and never crosses a page. -EFAULT where the GPU would fault.
 */
int sim_cursor_get(struct sim_cursor *c, u64 want, void **ptr, size_t *len)
{
	struct page *page;
	u64 index;
	int ret;

	if (!c->left) {
		sim_cursor_end(c);
		ret = sim_cursor_resolve(c);
		if (ret)
			return ret;
	}
	index = c->offset >> PAGE_SHIFT;
	if (c->bo->pages) {
		page = c->bo->pages[index];
	} else if (c->bo->kind == SIM_BO_USERPTR) {
		ret = sim_cursor_pin(c, index, want);
		if (ret)
			return ret;
		page = c->pins[index - c->pin_first];
	} else {
		return -EFAULT;
	}
	*ptr = page_address(page) + offset_in_page(c->offset);
	*len = min3(want, c->left, (u64)PAGE_SIZE - offset_in_page(c->offset));
	return 0;
}

void sim_cursor_advance(struct sim_cursor *c, size_t len)
{
	c->va += len;
	c->offset += len;
	c->left -= len;
}

int sim_vm_read(struct sim_vm *vm, u64 va, void *buf, u64 len)
{
	struct sim_cursor c;
	size_t n;
	void *ptr;
	int ret = 0;

	sim_cursor_init(&c, vm, va, false);
	while (len) {
		ret = sim_cursor_get(&c, len, &ptr, &n);
		if (ret)
			break;
		memcpy(buf, ptr, n);
		sim_cursor_advance(&c, n);
		buf += n;
		len -= n;
	}
	sim_cursor_end(&c);
	return ret;
}

/* Words are accessed whole: the CPU of the process looks at them at the same time. */
#define SIM_VM_WORD(name, type, arg, is_write, access)				\
int sim_vm_##name(struct sim_vm *vm, u64 va, arg)				\
{										\
	struct sim_cursor c;							\
	type *word;								\
	void *ptr;								\
	size_t n;								\
	int ret;								\
										\
	if (va & (sizeof(type) - 1))						\
		return -EFAULT;							\
	sim_cursor_init(&c, vm, va, is_write);					\
	ret = sim_cursor_get(&c, sizeof(type), &ptr, &n);			\
	if (!ret) {								\
		word = ptr;							\
		access;								\
	}									\
	sim_cursor_end(&c);							\
	return ret;								\
}

SIM_VM_WORD(read32, u32, u32 *val, false, *val = smp_load_acquire(word))
SIM_VM_WORD(read64, u64, u64 *val, false, *val = smp_load_acquire(word))
SIM_VM_WORD(write16, u16, u16 val, true, smp_store_release(word, val))
SIM_VM_WORD(write32, u32, u32 val, true, smp_store_release(word, val))
SIM_VM_WORD(write64, u64, u64 val, true, smp_store_release(word, val))
SIM_VM_WORD(add64, atomic64_t, u64 val, true, atomic64_add(val, word))

/*
 * String instructions are executed byte by byte by QEMU's TCG; plain 8-byte moves are
 * several times faster there and no slower elsewhere for whole pages.
 */
static void sim_copy_page(void *dst, const void *src, size_t len)
{
	u64 *d = dst;
	const u64 *s = src;

	if (((unsigned long)dst | (unsigned long)src | len) & 63) {
		memmove(dst, src, len);
		return;
	}
	for (; len; len -= 64, d += 8, s += 8) {
		u64 a = READ_ONCE(s[0]), b = READ_ONCE(s[1]), e = READ_ONCE(s[2]);
		u64 f = READ_ONCE(s[3]), g = READ_ONCE(s[4]), h = READ_ONCE(s[5]);
		u64 i = READ_ONCE(s[6]), j = READ_ONCE(s[7]);

		WRITE_ONCE(d[0], a);
		WRITE_ONCE(d[1], b);
		WRITE_ONCE(d[2], e);
		WRITE_ONCE(d[3], f);
		WRITE_ONCE(d[4], g);
		WRITE_ONCE(d[5], h);
		WRITE_ONCE(d[6], i);
		WRITE_ONCE(d[7], j);
	}
}

/*
 * Linear copy. Each byte beyond a mapping is a fault (gmc_v9_0.c:gmc_v9_0_process_interrupt @ 6.12.117). CRIU's own
 * plugin asks for one byte too many at the end of each buffer: only for it can that be let pass.
 */
int sim_vm_copy(struct sim_vm *vm, u64 dst, u64 src, u64 len, u64 *fault_va, bool *fault_write)
{
	struct sim_cursor d, s;
	size_t dn, sn;
	void *dp, *sp;
	u64 done = 0;
	int ret = 0;

	sim_cursor_init(&d, vm, dst, true);
	sim_cursor_init(&s, vm, src, false);
	while (done < len) {
		ret = sim_cursor_get(&s, len - done, &sp, &sn);
		if (ret) {
			*fault_va = s.va;
			*fault_write = false;
			break;
		}
		ret = sim_cursor_get(&d, sn, &dp, &dn);
		if (ret) {
			*fault_va = d.va;
			*fault_write = true;
			break;
		}
		sim_copy_page(dp, sp, dn);
		sim_cursor_advance(&s, dn);
		sim_cursor_advance(&d, dn);
		done += dn;
		cond_resched();
	}
	if (ret && done && len - done == 1 && !READ_ONCE(strict_last_byte))
		ret = 0;
	sim_cursor_end(&d);
	sim_cursor_end(&s);
	return ret;
}

/* Every word of len bytes (a multiple of 4) becomes val, or val more than it was. */
static int sim_vm_words(struct sim_vm *vm, u64 va, u32 val, u64 len, bool add, u64 *fault_va)
{
	u32 *word;
	struct sim_cursor c;
	size_t n;
	void *ptr;
	int ret = 0;

	if ((va | len) & 3) {
		*fault_va = va;
		return -EFAULT;
	}
	sim_cursor_init(&c, vm, va, true);
	while (len) {
		ret = sim_cursor_get(&c, len, &ptr, &n);
		if (ret) {
			*fault_va = c.va;
			break;
		}
		if (add)
			for (word = ptr; (void *)word < ptr + n; word++)
				*word += val;
		else
			memset32(ptr, val, n / 4);
		sim_cursor_advance(&c, n);
		len -= n;
		cond_resched();
	}
	sim_cursor_end(&c);
	return ret;
}

int sim_vm_fill32(struct sim_vm *vm, u64 va, u32 val, u64 len, u64 *fault_va)
{
	return sim_vm_words(vm, va, val, len, false, fault_va);
}

int sim_vm_increment32(struct sim_vm *vm, u64 va, u32 val, u64 len, u64 *fault_va)
{
	return sim_vm_words(vm, va, val, len, true, fault_va);
}
