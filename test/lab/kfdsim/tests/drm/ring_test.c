// SPDX-License-Identifier: GPL-2.0 OR MIT
/* DMA rings of a context, and what a submission costs its caller, through libdrm_amdgpu. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "drm/submit.h"

#define MS 1000000ull

/* The IB of nothing on a ring. 0 or -errno. */
static int submit_on(uint32_t ring)
{
	struct amdgpu_cs_ib_info info = { .ib_mc_address = ib.va, .size = 8 };
	struct amdgpu_cs_request req = { .ip_type = AMDGPU_HW_IP_DMA, .number_of_ibs = 1, .ibs = &info,
					 .ring = ring };
	int ret;

	memset(ib.cpu, 0, 32);
	MUST(!amdgpu_bo_list_create(dev, nr_mapped, mapped, NULL, &req.resources));
	ret = amdgpu_cs_submit(ctx, 0, &req, 1);
	CHECK(!amdgpu_bo_list_destroy(req.resources));
	return ret;
}

/* Two, however many engines there are (amdgpu_ctx.c:amdgpu_ctx_num_entities @ 6.12.117). */
static void test_rings(void)
{
	struct drm_amdgpu_info_hw_ip info = {};

	MUST(!amdgpu_query_hw_ip_info(dev, AMDGPU_HW_IP_DMA, 0, &info));
	CHECK(info.available_rings == 1 || info.available_rings == 3);
	IS(submit_on(0), 0);
	IS(submit_on(1), 0);
	IS(submit_on(2), -EINVAL);
}

static uint64_t time_of_submission(void)
{
	uint64_t start = now_ns();

	IS(submit_on(0), 0);
	return now_ns() - start;
}

/* Every submission looks up all pages of a userptr BO that it lists (amdgpu_cs.c:amdgpu_cs_parser_bos @ 6.12.117). */
static void test_userptr_cost(void)
{
	void *mem = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct buffer user = { .size = 4 * MIB };

	MUST(mem != MAP_FAILED);
	set_parameter("userptr_page_ns", "200000"); /* of 1024 pages: 204.8 ms */
	CHECK(time_of_submission() < 100 * MS);
	MUST(!amdgpu_create_bo_from_user_mem(dev, mem, user.size, &user.bo));
	map_va(&user);
	CHECK(time_of_submission() >= 204 * MS);
	CHECK(time_of_submission() >= 204 * MS);
	set_parameter("userptr_page_ns", "0");
	CHECK(time_of_submission() < 100 * MS);
	drop(&user);
	munmap(mem, 4 * MIB);
}

int main(void)
{
	open_device();
	test_rings();
	if (!skip_on_real("there it costs what it costs"))
		test_userptr_cost();
	close_device();
	CHECK(gone(2000));
	return report("ring_test");
}
