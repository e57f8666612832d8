// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The upper half of a GPU's addresses (amdgpu_gem.c:amdgpu_gem_va_ioctl @ 6.12.117), through libdrm_amdgpu. */
#define _GNU_SOURCE
#include "drm/later_uapi.h"
#include "drm/submit.h"

#define HIGH 0xffff800000000000ull
#define LOW_BITS 0x0000ffffffffffffull
#define AT (HIGH + 64 * MIB)
#define BYTES (64 * KIB)

static int va_op(struct buffer *b, uint64_t va, uint32_t op)
{
	return amdgpu_bo_va_op_raw(dev, b->bo, 0, BYTES, va, op == AMDGPU_VA_OP_MAP ? MAP_FLAGS : 0, op);
}

/* The driver tells the lower 48 bits of an address. */
static void test_mapping_info(struct buffer *b)
{
	struct sim_gem_vm_entry e[2] = {};
	struct sim_gem_op a = { .op = SIM_GEM_OP_GET_MAPPING_INFO, .value = (uintptr_t)e, .num_entries = 2 };

	if (skip_on_real("GET_MAPPING_INFO came after 6.12"))
		return;
	set_parameter("gem_mapping_info", "working");
	MUST(!amdgpu_bo_export(b->bo, amdgpu_bo_handle_type_kms, &a.handle));
	IS(try_ioctl(fd, DRM_IOCTL_SIM_GEM_OP, &a), 0);
	CHECK(a.num_entries == 2 && e[0].addr == (AT & LOW_BITS));
	set_parameter("gem_mapping_info", "absent");
}

int main(void)
{
	struct drm_amdgpu_info_device info;
	struct buffer from, to;

	open_device();
	MUST(!amdgpu_query_info(dev, AMDGPU_INFO_DEV_INFO, sizeof(info), &info));
	CHECK(info.high_va_offset == HIGH && info.high_va_max > AT);
	from = make(BYTES, AMDGPU_GEM_DOMAIN_GTT);
	to = make(BYTES, AMDGPU_GEM_DOMAIN_VRAM);
	fill(from.cpu, BYTES, 3);
	IS(va_op(&to, AT & LOW_BITS, AMDGPU_VA_OP_MAP), -EINVAL);
	IS(va_op(&to, info.high_va_max, AMDGPU_VA_OP_MAP), -EINVAL);
	IS(va_op(&to, AT, AMDGPU_VA_OP_MAP), 0);
	IS(va_op(&to, AT, AMDGPU_VA_OP_MAP), -EINVAL);
	test_mapping_info(&to);
	CHECK(done_within(copy(0, AT, from.va, BYTES), AMDGPU_TIMEOUT_INFINITE));
	CHECK(!memcmp(to.cpu, from.cpu, BYTES));
	IS(va_op(&to, AT, AMDGPU_VA_OP_UNMAP), 0);
	IS(va_op(&to, AT, AMDGPU_VA_OP_UNMAP), -ENOENT);
	drop(&from);
	drop(&to);
	close_device();
	CHECK(gone(2000));
	return report("va_test");
}
