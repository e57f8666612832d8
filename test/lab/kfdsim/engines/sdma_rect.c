// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * SDMA COPY_LINEAR_RECT, 13 dwords: a box of elements from one pitched image to another.
 * Counts and pitches are in elements, minus one; the element is 1 to 16 bytes.
 */
#include <linux/bitfield.h>

#include "kfdsim.h"

struct sim_image {
	u64 base;			/* GPU address of the box's first element */
	u64 pitch, slice;		/* bytes */
};

static void sim_image(struct sim_image *im, const u32 *dw, u32 shift)
{
	u64 pitch = FIELD_GET(GENMASK(31, 13), dw[3]) + 1;
	u64 slice = FIELD_GET(GENMASK(27, 0), dw[4]) + 1;
	u64 x = FIELD_GET(GENMASK(13, 0), dw[2]), y = FIELD_GET(GENMASK(29, 16), dw[2]);
	u64 z = FIELD_GET(GENMASK(10, 0), dw[3]);

	im->pitch = pitch << shift;
	im->slice = slice << shift;
	im->base = ((u64)dw[1] << 32 | dw[0]) + (x << shift) + y * im->pitch + z * im->slice;
}

/* Rows from s->progress on, at least one, until s->limit bytes have been moved. */
int sim_sdma_rect(struct sim_sdma *s, const u32 *dw)
{
	u32 shift = dw[0] >> 29;
	u64 width = ((u64)FIELD_GET(GENMASK(13, 0), dw[11]) + 1) << shift;
	u64 height = FIELD_GET(GENMASK(29, 16), dw[11]) + 1;
	u64 rows = height * (FIELD_GET(GENMASK(10, 0), dw[12]) + 1);
	struct sim_image src, dst;
	u64 moved = 0, y, z, from, to;
	struct sim_copy_fault fault = {};
	int ret;

	if (shift > 4)
		return -EINVAL;
	sim_image(&src, dw + 1, shift);
	sim_image(&dst, dw + 6, shift);
	if (!s->progress) {
		ret = sim_sdma_begin_copy(s, dst.base, &fault);
		if (ret)
			return ret;
	}
	while (s->progress < rows && moved < s->limit) {
		y = s->progress % height;
		z = s->progress / height;
		from = src.base + y * src.pitch + z * src.slice;
		to = dst.base + y * dst.pitch + z * dst.slice;
		ret = sim_vm_copy(s->vm, to, from, width, &s->fault_va, &s->fault_write);
		if (ret)
			return ret;
		moved += width;
		s->progress++;
	}
	if (fault.flip && sim_sdma_flip(s, dst.base, fault.bit % (width * 8)))
		return -EFAULT;
	atomic64_add(moved, &sim_count.sdma_bytes);
	s->ns += sim_copy_ns(s, dst.base, src.base, moved);
	return s->progress < rows ? -EINPROGRESS : 0;
}
