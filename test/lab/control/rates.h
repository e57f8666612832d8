/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* How long work of the simulated engines takes: parameters of the module, for whichever driver is there. */
#ifndef SIM_RATES_H
#define SIM_RATES_H

#include <linux/types.h>

#define SIM_RATE_ENGINES 16	/* SDMA engines of one GPU at most: as many as MI300X has */

/* What memory a copy or fill of an engine reaches: that decides about its rate. */
enum sim_reach {
	SIM_REACH_SYSTEM,
	SIM_REACH_VRAM,		/* nothing but the VRAM of the engine's own GPU */
	SIM_REACH_PEER,		/* VRAM of another GPU */
};

u64 sim_rate_ns(unsigned int engine, enum sim_reach reach, u64 bytes);
u64 sim_submit_ns(void);
u64 sim_step_ns(u32 step_us);

#endif
