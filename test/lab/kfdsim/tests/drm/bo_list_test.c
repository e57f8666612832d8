// SPDX-License-Identifier: GPL-2.0 OR MIT
/* BO lists of submissions, through libdrm_amdgpu: what is not in one may be away (amdgpu_cs.c:amdgpu_cs_parser_bos). */
#define _GNU_SOURCE
#include "drm/submit.h"

#define BYTES (64 * KIB)

static struct buffer from;

/* Is what from has in b, after a copy that lists what is mapped? */
static int copied_to(struct buffer *b)
{
	CHECK(done_within(copy(0, b->va, from.va, BYTES), AMDGPU_TIMEOUT_INFINITE));
	return !memcmp(b->cpu, from.cpu, BYTES);
}

static void test_listed(void)
{
	struct buffer to = make(BYTES, AMDGPU_GEM_DOMAIN_VRAM);
	struct buffer fixed = make_with(BYTES, AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID);
	long long faults = counter("gpu_faults");

	CHECK(copied_to(&to));
	/* What belongs to the address space needs no list. */
	unlist(&fixed);
	CHECK(copied_to(&fixed));
	CHECK(counter("gpu_faults") == faults);
	drop(&fixed);
	drop(&to);
}

static void test_unlisted(void)
{
	struct buffer to = make(BYTES, AMDGPU_GEM_DOMAIN_VRAM);
	long long faults = counter("gpu_faults");

	if (!skip_on_real("what is not in the list stays where it is as long as nobody needs the room")) {
		unlist(&to);
		CHECK(!copied_to(&to));
		CHECK(counter("gpu_faults") == faults + 1);
		/* Nor is it read. */
		CHECK(done_within(copy(0, from.va, to.va, BYTES), AMDGPU_TIMEOUT_INFINITE));
		CHECK(counter("gpu_faults") == faults + 2);
	}
	drop(&to);
}

/* A submission of nothing, with n lists in chunks and one of a handle. 0 or -errno. */
static int submit_lists(uint32_t handle, int n)
{
	struct drm_amdgpu_cs_chunk_ib info = { .va_start = ib.va, .ib_bytes = 32, .ip_type = AMDGPU_HW_IP_DMA };
	struct drm_amdgpu_bo_list_entry entry = {};
	struct drm_amdgpu_bo_list_in in = { .bo_number = 1, .bo_info_size = sizeof(entry),
					    .bo_info_ptr = (uintptr_t)&entry };
	struct drm_amdgpu_cs_chunk list = { .chunk_id = AMDGPU_CHUNK_ID_BO_HANDLES, .length_dw = sizeof(in) / 4,
					    .chunk_data = (uintptr_t)&in };
	struct drm_amdgpu_cs_chunk chunks[3] = {
		{ .chunk_id = AMDGPU_CHUNK_ID_IB, .length_dw = sizeof(info) / 4, .chunk_data = (uintptr_t)&info },
		list, list,
	};
	uint64_t seq;

	memset(ib.cpu, 0, 32);
	MUST(!amdgpu_bo_export(ib.bo, amdgpu_bo_handle_type_kms, &entry.bo_handle));
	return amdgpu_cs_submit_raw2(dev, ctx, handle, 1 + n, chunks, &seq);
}

static void test_one_list(void)
{
	struct drm_amdgpu_bo_list_entry entry = {};
	uint32_t handle;

	MUST(!amdgpu_bo_export(ib.bo, amdgpu_bo_handle_type_kms, &entry.bo_handle));
	MUST(!amdgpu_bo_list_create_raw(dev, 1, &entry, &handle));
	IS(submit_lists(handle, 0), 0);
	IS(submit_lists(0, 1), 0);
	IS(submit_lists(handle, 1), -EINVAL);
	IS(submit_lists(0, 2), -EINVAL);
	IS(submit_lists(handle + 1, 0), -ENOENT);
	CHECK(!amdgpu_bo_list_destroy_raw(dev, handle));
}

int main(void)
{
	open_device();
	from = make(BYTES, AMDGPU_GEM_DOMAIN_GTT);
	fill(from.cpu, BYTES, 5);
	test_listed();
	test_unlisted();
	test_one_list();
	drop(&from);
	close_device();
	CHECK(gone(2000));
	return report("bo_list_test");
}
