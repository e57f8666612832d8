// SPDX-License-Identifier: GPL-2.0 OR MIT
/* SDMA user queues: packets from a ring, in parts that an eviction can come between. */
#include <linux/minmax.h>

#include "kfdsim.h"

#define SDMA_MAX_DWORDS		16	/* no packet but a NOP is longer */
#define SDMA_PART_BYTES		(256 * 1024)

/* The packet at pos is over. */
void sim_queue_retire(struct sim_queue *q)
{
	if (!q->retiring)
		return;
	q->pos += q->retiring;
	q->retiring = 0;
	q->progress = 0;
}

static bool sim_sdma_publish(struct sim_process *p, struct sim_queue *q)
{
	if (q->published == q->pos)
		return true;
	if (sim_vm_write64(q->pdd->vm, q->rptr, q->pos)) {
		sim_queue_fault(p, q, q->rptr, true);
		return false;
	}
	q->published = q->pos;
	return true;
}

/* Bytes of the packet at pos, copied out of the ring; 0 if it is not all there yet. */
static u32 sim_sdma_fetch(struct sim_process *p, struct sim_queue *q, u64 wptr, u32 *dw)
{
	u64 have = wptr - q->pos, at, n;
	u32 done = 0;
	int len;

	if (have < 4)
		return 0;
	memset(dw, 0, SDMA_MAX_DWORDS * 4);
	have = min_t(u64, have, SDMA_MAX_DWORDS * 4);
	while (done < have) {
		at = (q->pos + done) & (q->ring_size - 1);
		n = min(have - done, q->ring_size - at);
		if (sim_vm_read(q->pdd->vm, q->ring + at, (u8 *)dw + done, n)) {
			sim_queue_fault(p, q, q->ring + at, false);
			return 0;
		}
		done += n;
	}
	len = sim_sdma_packet_dwords(dw[0]);
	if (len < 0) {
		sim_queue_halt(p, q, "bad SDMA packet", dw[0]);
		return 0;
	}
	return (u64)len * 4 <= wptr - q->pos ? len * 4 : 0;
}

/* One packet, or as much of a copy as one part has. Needs run_lock. */
enum sim_step sim_sdma_step(struct sim_process *p, struct sim_queue *q, u64 now)
{
	struct sim_sdma sdma = { .vm = q->pdd->vm, .process = p, .limit = SDMA_PART_BYTES,
				 .engine = sim_queue_engine(q) };
	u32 dw[SDMA_MAX_DWORDS], len;
	enum sim_step step;
	bool moved;
	u64 wptr;
	int ret;

	sim_queue_retire(q);
	if (!sim_sdma_publish(p, q))
		return SIM_STEP_IDLE;
	if (!sim_queue_pending(p, q, now, &wptr, &step))
		return step;
	len = sim_sdma_fetch(p, q, wptr, dw);
	if (!len)
		return SIM_STEP_IDLE;
	/* Not before the packet in front of this one was retired, with its progress. */
	sdma.progress = q->progress;
	ret = sim_sdma_exec(&sdma, dw);
	moved = sdma.progress != q->progress;
	switch (ret) {
	case 0:
		q->retiring = len;
		break;
	case -EINPROGRESS:
		q->progress = sdma.progress;
		break;
	case -EAGAIN:
		return SIM_STEP_MEMORY;
	case -EFAULT:
	case -EIO:
		sim_queue_fault(p, q, sdma.fault_va, sdma.fault_write);
		return SIM_STEP_IDLE;
	default:
		sim_queue_halt(p, q, "bad SDMA packet", dw[0]);
		return SIM_STEP_IDLE;
	}
	/* Bytes also wait for those other queues have on the same engine. */
	if (moved)
		q->ready_at = sim_engine_run(q->pdd->gpu, sdma.engine, now, sdma.ns);
	atomic64_add(sdma.ns, &q->pdd->sdma_ns);
	return SIM_STEP_DONE;
}
