// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What of a submission's addresses is there when it runs. The driver keeps the BOs of its list where they are, and
 * those that belong to the address space itself; any other may have been moved away, and an address of it faults
 * (amdgpu_cs.c:amdgpu_cs_parser_bos, amdgpu_cs_vm_handling @ 6.12.117). Here all others are always away. KFD keeps what
 * it has mapped (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_map_memory_to_gpu).
 */
#include <linux/bitfield.h>

#include "kfdsim.h"

struct sim_range {
	u64 va, bytes;
	bool write;
};

static u64 sim_packet_address(const u32 *dw)
{
	return (u64)dw[1] << 32 | dw[0];
}

/* One side of a rectangular copy, from its first byte to its last: see sdma_rect.c. */
static struct sim_range sim_rect_range(const u32 *packet, const u32 *dw, bool write)
{
	u32 shift = packet[0] >> 29;
	u64 pitch = (FIELD_GET(GENMASK(31, 13), dw[3]) + 1ULL) << shift;
	u64 slice = (FIELD_GET(GENMASK(27, 0), dw[4]) + 1ULL) << shift;
	u64 x = FIELD_GET(GENMASK(13, 0), dw[2]), y = FIELD_GET(GENMASK(29, 16), dw[2]);
	u64 z = FIELD_GET(GENMASK(10, 0), dw[3]);
	u64 width = (FIELD_GET(GENMASK(13, 0), packet[11]) + 1ULL) << shift;
	u64 rows = FIELD_GET(GENMASK(29, 16), packet[11]), slices = FIELD_GET(GENMASK(10, 0), packet[12]);

	return (struct sim_range){ sim_packet_address(dw) + (x << shift) + y * pitch + z * slice,
				   rows * pitch + slices * slice + width, write };
}

/* The memory that a packet reads and writes; returns how many ranges. */
static u32 sim_packet_ranges(const struct sim_gpu *gpu, const u32 *dw, struct sim_range r[2])
{
	u32 mask = sim_sdma_count_mask(gpu);

	switch (dw[0] & 0xff) {
	case SDMA_OP_COPY:
		if ((dw[0] >> 8 & 0xff) == SDMA_SUBOP_COPY_RECT) {
			r[0] = sim_rect_range(dw, dw + 1, false);
			r[1] = sim_rect_range(dw, dw + 6, true);
		} else {
			r[0] = (struct sim_range){ sim_packet_address(dw + 3), (dw[1] & mask) + 1ULL, false };
			r[1] = (struct sim_range){ sim_packet_address(dw + 5), (dw[1] & mask) + 1ULL, true };
		}
		return 2;
	case SDMA_OP_CONST_FILL:
		r[0] = (struct sim_range){ sim_packet_address(dw + 1), (dw[4] & mask & ~3u) + 4ULL, true };
		return 1;
	case SDMA_OP_FENCE:
	case SDMA_OP_ATOMIC:
	case SDMA_OP_TIMESTAMP:
		r[0] = (struct sim_range){ sim_packet_address(dw + 1), 4, true };
		return 1;
	default:
		return 0;
	}
}

/* Engine time of a packet. */
u64 sim_packet_ns(const struct sim_sdma *s, const u32 *packet)
{
	struct sim_range r[2];
	u64 bytes;

	if (!sim_packet_ranges(s->vm->gpu, packet, r))
		return 0;
	bytes = r[0].bytes;
	switch (packet[0] & 0xff) {
	case SDMA_OP_COPY:
		if ((packet[0] >> 8 & 0xff) == SDMA_SUBOP_COPY_RECT)
			bytes = (FIELD_GET(GENMASK(13, 0), packet[11]) + 1ULL) *
				(FIELD_GET(GENMASK(29, 16), packet[11]) + 1ULL) *
				(FIELD_GET(GENMASK(10, 0), packet[12]) + 1ULL) << (packet[0] >> 29);
		return sim_copy_ns(s, r[1].va, r[0].va, bytes);
	case SDMA_OP_CONST_FILL:
		return sim_fill_ns(s, r[0].va, bytes);
	default:
		return 0;
	}
}

/* Is all that a submission with this list meets from va on there? Else *fault_va is the first address that is not. */
bool sim_is_resident(struct sim_vm *vm, const struct sim_bo_list *list, u64 va, u64 bytes, u64 *fault_va)
{
	u64 start = sim_va(va), last = start + bytes - 1 < start ? U64_MAX : start + bytes - 1;
	struct sim_map *map;
	bool there = true;

	mutex_lock(&vm->lock);
	for (map = sim_map_first(vm, start, last); map && there; map = sim_map_next(map, start, last)) {
		there = map->kept || map->bo->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID ||
			sim_bo_list_has(list, map->bo);
		if (!there)
			*fault_va = va + (max_t(u64, map->it.start, start) - start);
	}
	mutex_unlock(&vm->lock);
	return there;
}

/* The same for a packet that is to be executed. */
bool sim_packet_resident(struct sim_sdma *s, const struct sim_bo_list *list, const u32 *packet)
{
	struct sim_range r[2];
	u32 i, n = sim_packet_ranges(s->vm->gpu, packet, r);

	for (i = 0; i < n; i++) {
		s->fault_write = r[i].write;
		if (!sim_is_resident(s->vm, list, r[i].va, r[i].bytes, &s->fault_va))
			return false;
	}
	return true;
}
