// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Packets of a submission, one after the other in its caller's context. */
#include <linux/sched/signal.h>

#include "kfdsim.h"

#define SIM_IB_PART_BYTES	(8u << 20)	/* moved before looking for a signal */

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
	} while (ret == -EINPROGRESS && !fatal_signal_pending(current));
	if (ret == -EAGAIN) {
		pr_warn_ratelimited("IB: waiting for memory is not modelled\n");
		return -EOPNOTSUPP;
	}
	if (ret == -EFAULT)
		sim_ib_fault(sdma);
	else if (ret)
		return ret == -EINPROGRESS ? -EINTR : ret;
	return fatal_signal_pending(current) ? -EINTR : 0;
}

static int sim_ib_run(struct sim_sdma *sdma, const struct sim_bo_list *bos, const u32 *dw, u32 nr)
{
	u32 pos = 0;
	int len, ret;

	while (pos < nr) {
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
 * 6.12.117); bos is the list of its submission. 0, also with faults; -EIO: made to fail; -EFAULT: the IB is not there.
 */
int sim_ib_execute(struct sim_sdma *sdma, const struct sim_bo_list *bos, u64 va, u32 bytes)
{
	u32 *dw = kvmalloc(bytes, GFP_KERNEL);
	int ret = -EFAULT;

	if (!dw)
		return -ENOMEM;
	va &= ~31ULL;
	sdma->limit = SIM_IB_PART_BYTES;
	if (sim_is_resident(sdma->vm, bos, va, bytes, &sdma->fault_va))
		ret = sim_vm_read(sdma->vm, va, dw, bytes);
	if (ret)
		pr_warn_ratelimited("IB at %#llx is not mapped, or not of a BO in the list\n", va);
	else
		ret = sim_ib_run(sdma, bos, dw, bytes / 4);
	kvfree(dw);
	return ret;
}
