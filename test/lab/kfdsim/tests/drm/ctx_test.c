// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What contexts are told of their GPU (amdgpu_ctx.c:amdgpu_ctx_query, amdgpu_ctx_query2 @ 6.12.117). */
#define _GNU_SOURCE
#include "drm/gem.h"

static int fd;

static uint32_t create_ctx(void)
{
	union drm_amdgpu_ctx c = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };

	MUST(!try_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c));
	return c.out.alloc.ctx_id;
}

static union drm_amdgpu_ctx_out ask(uint32_t id, uint32_t op)
{
	union drm_amdgpu_ctx c = { .in = { .op = op, .ctx_id = id } };

	MUST(!try_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c));
	return c.out;
}

static uint32_t flags(uint32_t id) { return ask(id, AMDGPU_CTX_OP_QUERY_STATE2).state.flags; }
static uint32_t reset(uint32_t id) { return ask(id, AMDGPU_CTX_OP_QUERY_STATE).state.reset_status; }

static void test_well(uint32_t id)
{
	CHECK(flags(id) == 0 && reset(id) == AMDGPU_CTX_NO_RESET);
	CHECK(ask(id, AMDGPU_CTX_OP_GET_STABLE_PSTATE).pstate.flags == AMDGPU_CTX_STABLE_PSTATE_NONE);
}

/* An error is told once to each context, also if it was there first. */
static void test_ras(uint32_t id)
{
	uint32_t later;

	set_parameter("ras_ce", "1");
	CHECK(flags(id) == AMDGPU_CTX_QUERY2_FLAGS_RAS_CE);
	CHECK(flags(id) == 0);
	later = create_ctx();
	set_parameter("ras_ue", "2");
	CHECK(flags(later) == (AMDGPU_CTX_QUERY2_FLAGS_RAS_CE | AMDGPU_CTX_QUERY2_FLAGS_RAS_UE));
	CHECK(flags(id) == AMDGPU_CTX_QUERY2_FLAGS_RAS_UE);
	CHECK(reset(id) == AMDGPU_CTX_NO_RESET);
	set_parameter("ras_ce", "0");
	set_parameter("ras_ue", "0");
}

/* A reset stays in the flags of what was made before. */
static void test_reset(void)
{
	uint32_t before = create_ctx(), after;

	set_parameter("gpu_resets", "1");
	set_parameter("vram_losses", "1");
	after = create_ctx();
	for (int i = 0; i < 2; i++)
		CHECK(flags(before) == (AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST));
	CHECK(reset(before) == AMDGPU_CTX_UNKNOWN_RESET);
	CHECK(reset(before) == AMDGPU_CTX_NO_RESET);
	CHECK(flags(after) == 0 && reset(after) == AMDGPU_CTX_NO_RESET);
	set_parameter("gpu_resets", "0");
	set_parameter("vram_losses", "0");
}

/* It is the device's, not the context's. */
static void test_pstate(uint32_t id)
{
	set_parameter("stable_pstate", "4");
	CHECK(ask(id, AMDGPU_CTX_OP_GET_STABLE_PSTATE).pstate.flags == AMDGPU_CTX_STABLE_PSTATE_PEAK);
	set_parameter("stable_pstate", "0");
}

int main(void)
{
	uint32_t id;

	fd = open_node();
	id = create_ctx();
	test_well(id);
	if (!skip_on_real("there errors of memory, resets and performance levels are those of hardware")) {
		test_ras(id);
		test_reset();
		test_pstate(id);
	}
	close(fd);
	CHECK(gone(2000));
	return report("ctx_test");
}
