// SPDX-License-Identifier: GPL-2.0 OR MIT
/* SDMA packets, as of SDMA v4 (gfx9): lengths in count fields are bytes minus one. */
#include "kfdsim.h"

enum {
	SDMA_OP_NOP = 0,
	SDMA_OP_COPY = 1,
	SDMA_OP_FENCE = 5,
	SDMA_OP_TRAP = 6,
	SDMA_OP_POLL_REGMEM = 8,
	SDMA_OP_ATOMIC = 10,
	SDMA_OP_CONST_FILL = 11,
	SDMA_OP_TIMESTAMP = 13,
	SDMA_OP_GCR = 17,
};

#define SDMA_SUBOP_COPY_LINEAR	0
#define SDMA_ATOMIC_ADD64	47

static u64 sim_address(const u32 *dw)
{
	return (u64)dw[1] << 32 | dw[0];
}

/* gfx90a widened the count of a linear copy from 22 to 30 bits. */
static u32 sim_copy_mask(struct sim_sdma *s)
{
	return s->vm->gpu->gfx_target_version >= 90010 ? GENMASK(29, 0) : GENMASK(21, 0);
}

/* Length of the packet with this first dword, or -EINVAL if it is not known. */
int sim_sdma_packet_dwords(u32 header)
{
	switch (header & 0xff) {
	case SDMA_OP_NOP:
		return 1 + ((header >> 16) & 0x3fff);
	case SDMA_OP_COPY:
		return (header >> 8 & 0xff) == SDMA_SUBOP_COPY_LINEAR ? 7 : -EINVAL;
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

static int sim_sdma_flip(struct sim_sdma *s, u64 dst, u64 bit)
{
	u64 va = dst + bit / 8;
	u32 shift = (va & 3) * 8 + bit % 8, word;

	s->fault_va = va &= ~3ULL;
	if (sim_vm_read32(s->vm, va, &word))
		return -EFAULT;
	s->fault_write = true;
	return sim_vm_write32(s->vm, va, word ^ BIT(shift));
}

static int sim_sdma_copy(struct sim_sdma *s, const u32 *dw)
{
	u64 len = (u64)(dw[1] & sim_copy_mask(s)) + 1, dst = sim_address(dw + 5);
	struct sim_copy_fault fault = sim_fault_copy();
	int ret;

	if (fault.fail) {
		s->fault_va = dst;
		s->fault_write = true;
		return -EIO;
	}
	atomic64_inc(&sim_count.sdma_copies);
	atomic64_add(len, &sim_count.sdma_bytes);
	s->bytes += len;
	s->delay += fault.delay;
	ret = sim_vm_copy(s->vm, dst, sim_address(dw + 3), len, &s->fault_va, &s->fault_write);
	if (!ret && fault.flip)
		ret = sim_sdma_flip(s, dst, fault.bit % (len * 8));
	return ret;
}

static int sim_sdma_fill(struct sim_sdma *s, const u32 *dw)
{
	/* The count is bytes minus 4: a fill is made of dwords. */
	u64 len = (u64)(dw[4] & sim_copy_mask(s) & ~3u) + 4;

	s->bytes += len;
	s->fault_write = true;
	return sim_vm_fill32(s->vm, sim_address(dw + 1), dw[3], len, &s->fault_va);
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
 * Execute one whole packet. -EAGAIN: the condition it waits for is not met yet;
 * -EFAULT: fault_va and fault_write say where; -EIO: made to fail, likewise.
 */
int sim_sdma_exec(struct sim_sdma *s, const u32 *dw)
{
	switch (dw[0] & 0xff) {
	case SDMA_OP_NOP:
	case SDMA_OP_GCR:
		return 0;
	case SDMA_OP_COPY:
		return sim_sdma_copy(s, dw);
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
