// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Packets of SDMA v4 (vega10_sdma_pkt_open.h), one at a time. Those of v5.2 have the same form
 * (navi10_sdma_pkt_open.h).
 */
#include "sim.h"

#include "chips/chip.h"
#include "control.h"
#include "soc15_ih_clientid.h"
#include "vega10_sdma_pkt_open.h"

#define SIM_OP_GCR	17	/* of later engines; libraries send it to all, and nothing is cached here */
#define SIM_ATOMIC_ADD64 47
#define SIM_SUBOP_INVALIDATE 4	/* of POLL_REGMEM, of v5.2 on */
#define SIM_NO_ENGINE	0x1f	/* for invalidations */

static const u8 sim_client[] = {
	SOC15_IH_CLIENTID_SDMA0, SOC15_IH_CLIENTID_SDMA1, SOC15_IH_CLIENTID_SDMA2, SOC15_IH_CLIENTID_SDMA3,
	SOC15_IH_CLIENTID_SDMA4, SOC15_IH_CLIENTID_SDMA5, SOC15_IH_CLIENTID_SDMA6, SOC15_IH_CLIENTID_SDMA7,
};

static u64 sim_address(const u32 *dw)
{
	return (u64)dw[1] << 32 | dw[0];
}

static bool sim_compare(u32 function, u32 a, u32 b)
{
	switch (function) {
	case 1: return a < b;
	case 2: return a <= b;
	case 3: return a == b;
	case 4: return a != b;
	case 5: return a >= b;
	case 6: return a > b;
	default: return true;
	}
}

static int sim_store(struct sim_stream *s, u64 va, const void *p, u32 len)
{
	s->fault = va;
	s->write = true;
	return sim_write(s->g, s->hub, s->vmid, va, p, len);
}

static int sim_load(struct sim_stream *s, u64 va, void *p, u32 len)
{
	s->fault = va;
	s->write = false;
	return sim_read(s->g, s->hub, s->vmid, va, p, len);
}

/* Data behind the packet, at va. */
static int sim_packet_data(struct sim_stream *s, const u32 *dw, u64 va, u64 left)
{
	u32 n = sim_packet_dwords(dw);
	enum sim_place far;

	if ((dw[0] >> 8 & 0xff) != SDMA_SUBOP_WRITE_LINEAR || n > left)
		return -EINVAL;
	return sim_copy(s, sim_address(dw + 1), va + 16, (n - 4) * 4, &far) ?: n;
}

/* Page table entries. The driver lets the engine write them for render nodes. */
static int sim_packet_ptes(struct sim_stream *s, const u32 *dw)
{
	u64 pe = sim_address(dw + 1), flags = sim_address(dw + 3), value = sim_address(dw + 5), step = sim_address(dw + 7);
	u32 n = dw[9] + 1;

	for (; n; n--, pe += 8, value += step) {
		u64 pte = value | flags;

		if (sim_store(s, pe, &pte, 8))
			return -EFAULT;
	}
	return 10;
}

/*
 * A request to an engine for invalidations. Linux 7 flushes this way (sdma_v5_2.c:sdma_v5_2_ring_emit_vm_flush @
 * 7.3.4).
 */
static int sim_packet_invalidate(struct sim_stream *s, const u32 *dw)
{
	if ((dw[0] >> 16 & 0x1f) != SIM_NO_ENGINE)
		sim_tlb_flush(s->g, SIM_GFX, dw[1] & 0xffff);
	if ((dw[0] >> 24 & 0x1f) != SIM_NO_ENGINE)
		sim_tlb_flush(s->g, SIM_MM, dw[1] & 0xffff);
	return 4;
}

static int sim_packet_poll(struct sim_stream *s, const u32 *dw)
{
	u32 value;

	if (!(dw[0] & BIT(31)))	/* a register: the flush was done with its request */
		return 6;
	if (sim_load(s, sim_address(dw + 1), &value, 4))
		return -EFAULT;
	return sim_compare(dw[0] >> 28 & 7, value & dw[4], dw[3]) ? 6 : 0;
}

static int sim_packet_atomic(struct sim_stream *s, const u32 *dw)
{
	u64 value;

	if (dw[0] >> 25 != SIM_ATOMIC_ADD64)
		return -EINVAL;
	if (sim_load(s, sim_address(dw + 1), &value, 8))
		return -EFAULT;
	value += sim_address(dw + 3);
	return sim_store(s, sim_address(dw + 1), &value, 8) ?: 8;
}

static int sim_packet_conditional(struct sim_stream *s, const u32 *dw)
{
	u32 value;

	if (sim_load(s, sim_address(dw + 1), &value, 4))
		return -EFAULT;
	return value == dw[3] ? 5 : 5 + (dw[4] & 0x3fff);
}

static int sim_packet_trap(struct sim_stream *s, const u32 *dw)
{
	u32 data[4] = { dw[1] & 0xfffffff };
	u32 on_die = s->engine % (s->g->adev->sdma.num_inst_per_aid ?: ARRAY_SIZE(sim_client));
	const u8 *clients = s->g->chip->sdma_clients ?: sim_client;

	sim_irq(s->g, s->hub, clients[on_die], 224, s->ring_id, s->vmid, data);
	return 2;
}

static int sim_packet_timestamp(struct sim_stream *s, const u32 *dw)
{
	u64 now = sim_clock();

	return sim_store(s, sim_address(dw + 1), &now, 8) ?: 3;
}

static int sim_packet_register(struct sim_stream *s, const u32 *dw)
{
	sim_set_register(s->g->adev, dw[1] & 0x3ffff, dw[2]);
	return 3;
}

/* The length of a packet in dwords, or 0 when it is unknown. */
u32 sim_packet_dwords(const u32 *dw)
{
	u32 sub = dw[0] >> 8 & 0xff;

	switch (dw[0] & 0xff) {
	case SDMA_OP_NOP: return 1 + (dw[0] >> 16 & 0x3fff);
	case SDMA_OP_COPY: return sub == SDMA_SUBOP_COPY_LINEAR_SUB_WIND ? 13 : dw[0] & BIT(27) ? 9 : 7;
	case SDMA_OP_WRITE: return (dw[3] & 0xfffff) + 1 + 4;
	case SDMA_OP_INDIRECT: return 6;
	case SDMA_OP_FENCE: return 4;
	case SDMA_OP_TRAP: return 2;
	case SDMA_OP_POLL_REGMEM: return sub == SIM_SUBOP_INVALIDATE ? 4 : 6;
	case SDMA_OP_COND_EXE: return 5;
	case SDMA_OP_ATOMIC: return 8;
	case SDMA_OP_CONST_FILL: return 5;
	case SDMA_OP_PTEPDE: return 10;
	case SDMA_OP_TIMESTAMP: return 3;
	case SDMA_OP_SRBM_WRITE: return 3;
	case SIM_OP_GCR: return 5;
	default: return 0;
	}
}

static int sim_packet_once(struct sim_stream *s, const u32 *dw, u64 va, u64 left)
{
	u32 sub = dw[0] >> 8 & 0xff;

	switch (dw[0] & 0xff) {
	case SDMA_OP_COPY:
		if (sub == SDMA_SUBOP_COPY_LINEAR_SUB_WIND)
			return sim_packet_rectangle(s, dw);
		return sub == SDMA_SUBOP_COPY_LINEAR ? sim_packet_copy(s, dw) : -EINVAL;
	case SDMA_OP_WRITE: return sim_packet_data(s, dw, va, left);
	case SDMA_OP_FENCE: return sim_store(s, sim_address(dw + 1), dw + 3, 4) ?: 4;
	case SDMA_OP_TRAP: return sim_packet_trap(s, dw);
	case SDMA_OP_POLL_REGMEM: return sub == SIM_SUBOP_INVALIDATE ? sim_packet_invalidate(s, dw) : sim_packet_poll(s, dw);
	case SDMA_OP_COND_EXE: return sim_packet_conditional(s, dw);
	case SDMA_OP_ATOMIC: return sim_packet_atomic(s, dw);
	case SDMA_OP_CONST_FILL: return sim_packet_fill(s, dw);
	case SDMA_OP_PTEPDE: return sub == SDMA_SUBOP_PTEPDE_GEN ? sim_packet_ptes(s, dw) : -EINVAL;
	case SDMA_OP_TIMESTAMP: return sim_packet_timestamp(s, dw);
	case SDMA_OP_SRBM_WRITE: return sim_packet_register(s, dw);
	case SDMA_OP_NOP:
	case SIM_OP_GCR: return sim_packet_dwords(dw);
	default: return -EINVAL;
	}
}

/*
 * Runs one packet, or a part of a long copy. dw: its first 16 dwords; va: its address; left: number of dwords from its
 * beginning on. Returns its length in dwords. 0: it waits for memory; -EINPROGRESS: it has not ended; -EFAULT: at
 * s->fault; -EINVAL: it is unknown.
 */
int sim_packet(struct sim_stream *s, const u32 *dw, u64 va, u64 left)
{
	int r = sim_packet_once(s, dw, va, left);

	if (r && r != -EINPROGRESS) {
		s->done = 0;
		s->begun = false;
	}
	return r;
}
