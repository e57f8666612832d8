// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Packets that move memory. They run in parts: an engine can be stopped between two parts, and takes as long as its
 * rate demands.
 */
#include "sim.h"

#include "control.h"
#include "faults.h"
#include "rates.h"

/* Bytes of a copy between two checks of anything else. */
#define SIM_PART	(256 * 1024ULL)
/* An engine whose thread is late catches up by at most this, ns. */
#define SIM_LATE_NS	(20 * NSEC_PER_MSEC)
/* Intervals between reads of a polled word of memory, ns: at first, and after SIM_PATIENCE_NS. */
#define SIM_SOON_NS	(100 * NSEC_PER_USEC)
#define SIM_LATER_NS	(2 * NSEC_PER_MSEC)
#define SIM_PATIENCE_NS	(500 * NSEC_PER_MSEC)

static u64 sim_address(const u32 *dw)
{
	return (u64)dw[1] << 32 | dw[0];
}

static enum sim_reach sim_reach(enum sim_place far)
{
	return far == SIM_OWN_VRAM ? SIM_REACH_VRAM : far == SIM_PEER_VRAM ? SIM_REACH_PEER : SIM_REACH_SYSTEM;
}

static void sim_engine_takes(struct sim_stream *s, u64 ns)
{
	u64 *until = &s->g->ring[s->engine].busy_until, now = ktime_get_ns();

	*until = max(*until, now - SIM_LATE_NS);
	if (*until < now && !s->done)
		*until = now;
	*until += ns;
}

/* Whether it is still busy with finished work. If so, it is checked again when that time is over. */
bool sim_engine_busy(struct sim_gpu *g, u32 engine)
{
	if (g->ring[engine].busy_until <= ktime_get_ns())
		return false;
	sim_wake_at(g, g->ring[engine].busy_until);
	return true;
}

/* The time of the next read of a polled word of memory. *since is the start of the wait. */
u64 sim_retry_at(u64 *since)
{
	u64 now = ktime_get_ns();

	if (!*since)
		*since = now;
	return now + (now - *since < SIM_PATIENCE_NS ? SIM_SOON_NS : SIM_LATER_NS);
}

/* Requested faults, checked once for each packet. Returns true when the packet moves nothing. */
static bool sim_copy_begins(struct sim_stream *s)
{
	struct sim_copy_fault fault;

	if (s->begun)
		return false;
	s->begun = true;
	atomic64_inc(&sim_count.sdma_copies);
	fault = sim_fault_copy();
	s->flip = fault.flip ? fault.bit : SIM_NEVER;
	if (fault.delay)
		sim_engine_takes(s, fault.delay);
	return fault.fail;
}

/* A copy that must fail. The kernel's engine hangs until it is reset; a user queue faults. */
static int sim_copy_fails(struct sim_stream *s, u64 from)
{
	s->fault = from;
	s->write = false;
	if (s->ring_id)
		return -EFAULT;
	s->g->ring[s->engine].hung = true;
	return -EINPROGRESS;
}

static int sim_flip(struct sim_stream *s, u64 to, u64 len)
{
	u8 byte;
	u64 at = to + s->flip / 8 % len;
	int r;

	if (s->flip == SIM_NEVER)
		return 0;
	r = sim_read(s->g, s->hub, s->vmid, at, &byte, 1);
	byte ^= BIT(s->flip % 8);
	return r ?: sim_write(s->g, s->hub, s->vmid, at, &byte, 1);
}

/* A broadcast copy (bit 27) writes both destinations, the second one from the first. */
int sim_packet_copy(struct sim_stream *s, const u32 *dw)
{
	u64 len = (dw[1] & 0x3fffffff) + 1ULL, from = sim_address(dw + 3), to = sim_address(dw + 5), part;
	bool broadcast = dw[0] & BIT(27);
	enum sim_place far = SIM_SYSTEM;

	if (sim_copy_begins(s))
		return sim_copy_fails(s, from);
	part = min(len - s->done, SIM_PART);
	if (sim_copy(s, to + s->done, from + s->done, part, &far) ||
	    (broadcast && sim_copy(s, sim_address(dw + 7) + s->done, from + s->done, part, &far)))
		return -EFAULT;
	sim_engine_takes(s, sim_rate_ns(s->engine, sim_reach(far), part));
	s->done += part;
	atomic64_add(part, &sim_count.sdma_bytes);
	if (s->done < len)
		return -EINPROGRESS;
	return sim_flip(s, to, len) ?: sim_packet_dwords(dw);
}

int sim_packet_fill(struct sim_stream *s, const u32 *dw)
{
	u64 len = dw[0] >> 30 == 2 ? (dw[4] & 0x3ffffffc) + 4ULL : (dw[4] & 0x3fffffff) + 1ULL, part;
	enum sim_place far = SIM_SYSTEM;

	part = min(len - s->done, SIM_PART);
	if (sim_fill(s, sim_address(dw + 1) + s->done, dw[3], part, &far))
		return -EFAULT;
	sim_engine_takes(s, sim_rate_ns(s->engine, sim_reach(far), part));
	s->done += part;
	return s->done < len ? -EINPROGRESS : 5;
}

/* A box of elements of 2^es bytes: d slices of h rows of w bytes. */
int sim_packet_rectangle(struct sim_stream *s, const u32 *dw)
{
	u32 es = dw[0] >> 29 & 7, y, z;
	u64 from = sim_address(dw + 1), to = sim_address(dw + 6);
	u64 from_pitch = (u64)((dw[4] >> 13) + 1) << es, to_pitch = (u64)((dw[9] >> 13) + 1) << es;
	u64 from_slice = (u64)((dw[5] & 0xfffffff) + 1) << es, to_slice = (u64)((dw[10] & 0xfffffff) + 1) << es;
	u32 w = ((dw[11] & 0x3fff) + 1) << es, h = (dw[11] >> 16 & 0x3fff) + 1, d = (dw[12] & 0x7ff) + 1;
	enum sim_place far = SIM_SYSTEM;

	if (sim_copy_begins(s))
		return sim_copy_fails(s, from);
	from += ((u64)(dw[3] & 0x3fff) << es) + (dw[3] >> 16 & 0x3fff) * from_pitch + (dw[4] & 0x7ff) * from_slice;
	to += ((u64)(dw[8] & 0x3fff) << es) + (dw[8] >> 16 & 0x3fff) * to_pitch + (dw[9] & 0x7ff) * to_slice;
	for (z = 0; z < d; z++)
		for (y = 0; y < h; y++)
			if (sim_copy(s, to + z * to_slice + y * to_pitch, from + z * from_slice + y * from_pitch, w, &far))
				return -EFAULT;
	sim_engine_takes(s, sim_rate_ns(s->engine, sim_reach(far), (u64)w * h * d));
	atomic64_add((u64)w * h * d, &sim_count.sdma_bytes);
	return 13;
}
