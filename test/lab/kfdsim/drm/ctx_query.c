// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What a context is told of its GPU: errors of memory, resets, the performance level. Parameters say what there was.
 * They hold for all GPUs (amdgpu_ctx.c:amdgpu_ctx_query, amdgpu_ctx_query2, amdgpu_ctx_get_stable_pstate @ 6.12.117).
 */
#include "kfdsim.h"

static unsigned int ras_ce;
module_param(ras_ce, uint, 0644);
MODULE_PARM_DESC(ras_ce, "errors of memory that were corrected (default 0)");

static unsigned int ras_ue;
module_param(ras_ue, uint, 0644);
MODULE_PARM_DESC(ras_ue, "errors of memory that could not be corrected (default 0)");

static unsigned int gpu_resets;
module_param(gpu_resets, uint, 0644);
MODULE_PARM_DESC(gpu_resets, "resets of the GPU so far (default 0)");

static unsigned int vram_losses;
module_param(vram_losses, uint, 0644);
MODULE_PARM_DESC(vram_losses, "resets that VRAM did not outlive (default 0)");

static unsigned int stable_pstate;
module_param(stable_pstate, uint, 0644);
MODULE_PARM_DESC(stable_pstate, "AMDGPU_CTX_STABLE_PSTATE_* of the device's performance level, 0 to 4 (default 0)");

/* Resets before it was made do not concern a context; errors of memory do. */
void sim_ctx_begin(struct sim_ctx *ctx)
{
	ctx->resets = ctx->resets_told = READ_ONCE(gpu_resets);
	ctx->vram_losses = READ_ONCE(vram_losses);
}

/* Was there a reset since the last time it was asked? */
static void sim_ctx_query(struct sim_ctx *ctx, union drm_amdgpu_ctx_out *out)
{
	u32 resets = READ_ONCE(gpu_resets);

	out->state.reset_status = ctx->resets_told == resets ? AMDGPU_CTX_NO_RESET : AMDGPU_CTX_UNKNOWN_RESET;
	ctx->resets_told = resets;
}

/* Resets since it was made; errors of memory since the last time, the first time all that there ever were. */
static void sim_ctx_query2(struct sim_ctx *ctx, union drm_amdgpu_ctx_out *out)
{
	u32 ce = READ_ONCE(ras_ce), ue = READ_ONCE(ras_ue);

	if (ctx->resets != READ_ONCE(gpu_resets))
		out->state.flags |= AMDGPU_CTX_QUERY2_FLAGS_RESET;
	if (ctx->vram_losses != READ_ONCE(vram_losses))
		out->state.flags |= AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST;
	if (ce != ctx->ras_ce)
		out->state.flags |= AMDGPU_CTX_QUERY2_FLAGS_RAS_CE;
	if (ue != ctx->ras_ue)
		out->state.flags |= AMDGPU_CTX_QUERY2_FLAGS_RAS_UE;
	ctx->ras_ce = ce;
	ctx->ras_ue = ue;
}

/* The answer to one of the three questions. */
void sim_ctx_answer(struct sim_ctx *ctx, u32 op, union drm_amdgpu_ctx_out *out)
{
	memset(out, 0, sizeof(*out));
	spin_lock_irq(&ctx->lock);
	if (op == AMDGPU_CTX_OP_QUERY_STATE)
		sim_ctx_query(ctx, out);
	else if (op == AMDGPU_CTX_OP_QUERY_STATE2)
		sim_ctx_query2(ctx, out);
	else
		out->pstate.flags = READ_ONCE(stable_pstate) & AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK;
	spin_unlock_irq(&ctx->lock);
}
