// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Packets of a submission: how long they take, and what they do. */
#include "kfdsim.h"

#define SIM_IB_PART_BYTES	(8u << 20)	/* moved at once */

/* As with the real GPU: the fault is reported, the job goes on. */
static void sim_ib_fault(const struct sim_sdma *sdma)
{
	atomic64_inc(&sim_count.gpu_faults);
	pr_warn_ratelimited("SDMA %s fault at %#llx\n", sdma->fault_write ? "write" : "read", sdma->fault_va);
}

/* One packet. 0 also when it met a fault. */
static int sim_ib_packet(struct sim_sdma *sdma, const struct sim_bo_list *bos, const u32 *dw)
{
	int ret;

	if (!sim_packet_resident(sdma, bos, dw)) {
		sim_ib_fault(sdma);
		return 0;
	}
	sdma->progress = 0;
	do {
		ret = sim_sdma_exec(sdma, dw);
	} while (ret == -EINPROGRESS && !READ_ONCE(*sdma->stop));
	if (ret == -EAGAIN) {
		pr_warn_ratelimited("IB: waiting for memory is not modelled\n");
		return -EOPNOTSUPP;
	}
	if (ret != -EFAULT)
		return ret;
	sim_ib_fault(sdma);
	return 0;
}

static int sim_ib_run(struct sim_sdma *sdma, const struct sim_bo_list *bos, const u32 *dw, u32 nr)
{
	u32 pos = 0;
	int len, ret;

	while (pos < nr) {
		if (READ_ONCE(*sdma->stop))
			return -ECANCELED;
		len = sim_sdma_packet_dwords(dw[pos]);
		if (len <= 0 || len > nr - pos) {
			pr_warn_ratelimited("IB: bad packet %08x at dword %u\n", dw[pos], pos);
			return -EINVAL;
		}
		ret = sim_ib_packet(sdma, bos, dw + pos);
		if (ret)
			return ret;
		pos += len;
	}
	return 0;
}

/*
 * The IB at va, of which the GPU reads from the last multiple of 32 on (sdma_v4_4_2.c:sdma_v4_4_2_ring_emit_ib @
 * 6.12.117); bos is the list of its submission. The caller frees it. -EFAULT: it is not there.
 */
static u32 *sim_ib_read(const struct sim_sdma *sdma, const struct sim_bo_list *bos, u64 va, u32 bytes)
{
	u32 *dw = kvmalloc(bytes, GFP_KERNEL);
	u64 fault_va;

	if (!dw)
		return ERR_PTR(-ENOMEM);
	va &= ~31ULL;
	if (sim_is_resident(sdma->vm, bos, va, bytes, &fault_va) && !sim_vm_read(sdma->vm, va, dw, bytes))
		return dw;
	pr_warn_ratelimited("IB at %#llx is not mapped, or not of a BO in the list\n", va);
	kvfree(dw);
	return ERR_PTR(-EFAULT);
}

/* Adds the engine time of an IB as it is now. -EINVAL for a packet that is not known. */
int sim_ib_time(struct sim_sdma *sdma, const struct sim_bo_list *bos, u64 va, u32 bytes)
{
	u32 *dw = sim_ib_read(sdma, bos, va, bytes), pos;
	int len, ret = 0;

	if (IS_ERR(dw))
		return PTR_ERR(dw);
	for (pos = 0; pos < bytes / 4 && !ret; pos += len) {
		len = sim_sdma_packet_dwords(dw[pos]);
		if (len <= 0 || len > bytes / 4 - pos)
			ret = -EINVAL;
		else
			sdma->ns += sim_packet_ns(sdma, dw + pos);
	}
	kvfree(dw);
	return ret;
}

/* 0, also with faults; -EIO: made to fail; another error: the engine cannot go on. */
int sim_ib_execute(struct sim_sdma *sdma, const struct sim_bo_list *bos, u64 va, u32 bytes)
{
	u32 *dw = sim_ib_read(sdma, bos, va, bytes);
	int ret;

	if (IS_ERR(dw))
		return PTR_ERR(dw);
	sdma->limit = SIM_IB_PART_BYTES;
	ret = sim_ib_run(sdma, bos, dw, bytes / 4);
	kvfree(dw);
	return ret;
}
