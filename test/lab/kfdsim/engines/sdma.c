// SPDX-License-Identifier: GPL-2.0 OR MIT
/* SDMA packets, as of SDMA v4 (gfx9): lengths in count fields are bytes minus one. */
#include "kfdsim.h"

#define SDMA_ATOMIC_ADD64	47

static u64 sim_address(const u32 *dw)
{
	return (u64)dw[1] << 32 | dw[0];
}

/* gfx90a widened the count of a linear copy from 22 to 30 bits. */
u32 sim_sdma_count_mask(const struct sim_gpu *gpu)
{
	return gpu->gfx_target_version >= 90010 ? GENMASK(29, 0) : GENMASK(21, 0);
}

/* Length of the packet with this first dword, or -EINVAL if it is not known. */
int sim_sdma_packet_dwords(u32 header)
{
	switch (header & 0xff) {
	case SDMA_OP_NOP:
		return 1 + ((header >> 16) & 0x3fff);
	case SDMA_OP_COPY:
		switch (header >> 8 & 0xff) {
		case SDMA_SUBOP_COPY_LINEAR:
			return 7;
		case SDMA_SUBOP_COPY_RECT:
			return 13;
		default:
			return -EINVAL;
		}
	case SDMA_OP_FENCE:
		return 4;
	case SDMA_OP_TRAP:
		return 2;
	case SDMA_OP_POLL_REGMEM:
		return 6;
	case SDMA_OP_ATOMIC:
		return (header >> 25) == SDMA_ATOMIC_ADD64 ? 8 : -EINVAL;
	case SDMA_OP_CONST_FILL:
		return 5;
	case SDMA_OP_TIMESTAMP:
		return 3;
	case SDMA_OP_GCR:
		return 5;
	default:
		return -EINVAL;
	}
}

/* Invert a bit of what was written from dst on. */
int sim_sdma_flip(struct sim_sdma *s, u64 dst, u64 bit)
{
	u64 va = dst + bit / 8;
	u32 shift = (va & 3) * 8 + bit % 8, word;

	s->fault_va = va &= ~3ULL;
	if (sim_vm_read32(s->vm, va, &word))
		return -EFAULT;
	s->fault_write = true;
	return sim_vm_write32(s->vm, va, word ^ BIT(shift));
}

/* A copy packet is begun: count it and apply the fault rules. -EIO: it is to fail at dst. */
int sim_sdma_begin_copy(struct sim_sdma *s, u64 dst, struct sim_copy_fault *fault)
{
	*fault = sim_fault_copy();
	if (fault->fail) {
		s->fault_va = dst;
		s->fault_write = true;
		return -EIO;
	}
	atomic64_inc(&sim_count.sdma_copies);
	s->ns += fault->delay;
	return 0;
}

/*
 * Bytes of a packet of len that this call is to move. What is left after it is a page at
 * least: the forgiven last byte of a copy never stands alone.
 */
static u64 sim_sdma_part(const struct sim_sdma *s, u64 len)
{
	u64 left = len - min(s->progress, len);

	return left > s->limit + PAGE_SIZE ? s->limit : left;
}

static int sim_sdma_advance(struct sim_sdma *s, u64 len, u64 moved)
{
	s->progress += moved;
	return s->progress < len ? -EINPROGRESS : 0;
}

static int sim_sdma_copy(struct sim_sdma *s, const u32 *dw)
{
	u64 len = (u64)(dw[1] & sim_sdma_count_mask(s->vm->gpu)) + 1, n = sim_sdma_part(s, len);
	u64 src = sim_address(dw + 3) + s->progress, dst = sim_address(dw + 5) + s->progress;
	struct sim_copy_fault fault = {};
	int ret = 0;

	if (!s->progress)
		ret = sim_sdma_begin_copy(s, dst, &fault);
	if (ret)
		return ret;
	/* The bit may be anywhere in the packet. */
	if (fault.flip)
		n = len;
	ret = sim_vm_copy(s->vm, dst, src, n, &s->fault_va, &s->fault_write);
	if (!ret && fault.flip)
		ret = sim_sdma_flip(s, dst, fault.bit % (len * 8));
	if (ret)
		return ret;
	atomic64_add(n, &sim_count.sdma_bytes);
	s->ns += sim_copy_ns(s, dst, src, n);
	return sim_sdma_advance(s, len, n);
}

static int sim_sdma_fill(struct sim_sdma *s, const u32 *dw)
{
	/* The count is bytes minus 4: a fill is made of dwords. */
	u64 len = (u64)(dw[4] & sim_sdma_count_mask(s->vm->gpu) & ~3u) + 4, n = sim_sdma_part(s, len);
	u64 dst = sim_address(dw + 1) + s->progress;

	s->fault_write = true;
	if (sim_vm_fill32(s->vm, dst, dw[3], n, &s->fault_va))
		return -EFAULT;
	s->ns += sim_fill_ns(s, dst, n);
	return sim_sdma_advance(s, len, n);
}

static bool sim_compare(u32 func, u32 val, u32 ref)
{
	switch (func) {
	case 1:
		return val < ref;
	case 2:
		return val <= ref;
	case 3:
		return val == ref;
	case 4:
		return val != ref;
	case 5:
		return val >= ref;
	case 6:
		return val > ref;
	default:
		return true;
	}
}

static int sim_sdma_poll(struct sim_sdma *s, const u32 *dw)
{
	u32 val;

	/* Without mem_poll this is the HDP flush: nothing is cached here. */
	if (!(dw[0] & BIT(31)))
		return 0;
	s->fault_va = sim_address(dw + 1);
	s->fault_write = false;
	if (sim_vm_read32(s->vm, s->fault_va, &val))
		return -EFAULT;
	return sim_compare(dw[0] >> 28 & 7, val & dw[4], dw[3]) ? 0 : -EAGAIN;
}

/*
 * Execute a packet, or as much of it as s->limit allows. -EINPROGRESS: call again with the
 * same s->progress for the rest; -EAGAIN: the condition it waits for is not met yet;
 * -EFAULT: fault_va and fault_write say where; -EIO: made to fail, likewise.
 */
int sim_sdma_exec(struct sim_sdma *s, const u32 *dw)
{
	switch (dw[0] & 0xff) {
	case SDMA_OP_NOP:
	case SDMA_OP_GCR:
		return 0;
	case SDMA_OP_COPY:
		return (dw[0] >> 8 & 0xff) == SDMA_SUBOP_COPY_RECT ? sim_sdma_rect(s, dw) :
								     sim_sdma_copy(s, dw);
	case SDMA_OP_CONST_FILL:
		return sim_sdma_fill(s, dw);
	case SDMA_OP_POLL_REGMEM:
		return sim_sdma_poll(s, dw);
	case SDMA_OP_TRAP:
		if (s->process)
			sim_event_interrupt(s->process, dw[1] & GENMASK(27, 0));
		return 0;
	}
	s->fault_va = sim_address(dw + 1);
	s->fault_write = true;
	switch (dw[0] & 0xff) {
	case SDMA_OP_FENCE:
		return sim_vm_write32(s->vm, s->fault_va, dw[3]);
	case SDMA_OP_ATOMIC:
		return sim_vm_add64(s->vm, s->fault_va, sim_address(dw + 3));
	case SDMA_OP_TIMESTAMP:
		return sim_vm_write64(s->vm, s->fault_va, sim_gpu_clock());
	default:
		return -EINVAL;
	}
}
