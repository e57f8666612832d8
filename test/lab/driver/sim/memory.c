// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Reads and writes of memory by the hardware: page by page, each by the translation of that moment. */
#include "sim.h"

/* The number of bytes of len that lie in va's page. */
static u64 sim_in_page(u64 va, u64 len)
{
	return min_t(u64, PAGE_SIZE - (va & ~PAGE_MASK), len);
}

static void *sim_at(const struct sim_page *page, u64 va)
{
	return page->at + (va & ~PAGE_MASK);
}

static int sim_move(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, void *p, u64 len, bool write)
{
	struct sim_page page;
	u64 n;
	int r;

	for (; len; va += n, p += n, len -= n) {
		n = sim_in_page(va, len);
		sim_access_begin(g);
		r = sim_translate(g, hub, vmid, va, &page);
		if (!r && !(write ? page.writeable : page.readable))
			r = -EFAULT;
		if (!r && write)
			memcpy(sim_at(&page, va), p, n);
		else if (!r)
			memcpy(p, sim_at(&page, va), n);
		sim_access_end(g);
		if (r)
			return r;
	}
	return 0;
}

int sim_read(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, void *to, u64 len)
{
	return sim_move(g, hub, vmid, va, to, len, false);
}

int sim_write(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, const void *from, u64 len)
{
	return sim_move(g, hub, vmid, va, (void *)from, len, true);
}

/* The end of a copy that determines its rate. */
static enum sim_place sim_farther(enum sim_place a, enum sim_place b)
{
	if (a == SIM_PEER_VRAM || b == SIM_PEER_VRAM)
		return SIM_PEER_VRAM;
	return a == SIM_OWN_VRAM && b == SIM_OWN_VRAM ? SIM_OWN_VRAM : SIM_SYSTEM;
}

static int sim_faulted(struct sim_stream *s, u64 va, bool write)
{
	s->fault = va;
	s->write = write;
	return -EFAULT;
}

/* Copies for an SDMA stream, which gets the address of a fault. *far gets the place that determines the rate. */
int sim_copy(struct sim_stream *s, u64 to, u64 from, u64 len, enum sim_place *far)
{
	struct sim_gpu *g = s->g;
	u64 n;

	for (; len; from += n, to += n, len -= n) {
		struct sim_page source, target;
		bool reads, writes = false;

		n = min(sim_in_page(from, len), sim_in_page(to, len));
		sim_access_begin(g);
		reads = !sim_translate(g, s->hub, s->vmid, from, &source) && source.readable;
		if (reads)
			writes = !sim_translate(g, s->hub, s->vmid, to, &target) && target.writeable;
		if (writes)
			memmove(sim_at(&target, to), sim_at(&source, from), n);
		sim_access_end(g);
		if (!reads)
			return sim_faulted(s, from, false);
		if (!writes)
			return sim_faulted(s, to, true);
		*far = sim_farther(source.place, target.place);
	}
	return 0;
}

int sim_fill(struct sim_stream *s, u64 to, u32 value, u64 len, enum sim_place *far)
{
	struct sim_gpu *g = s->g;
	u64 n;

	for (; len; to += n, len -= n) {
		struct sim_page page;
		bool writes;

		n = sim_in_page(to, len);
		sim_access_begin(g);
		writes = !sim_translate(g, s->hub, s->vmid, to, &page) && page.writeable;
		if (writes)
			memset32(sim_at(&page, to), value, n / 4);
		sim_access_end(g);
		if (!writes)
			return sim_faulted(s, to, true);
		*far = page.place;
	}
	return 0;
}
