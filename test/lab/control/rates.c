// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Parameters of the time model. They can be changed at any time, for work that begins. */
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/time64.h>

#include "rates.h"

/* MB/s of each engine of a GPU. Those behind the end of the list that was given are as its last. */
struct sim_rates {
	unsigned int values[SIM_RATE_ENGINES];
	unsigned int nr;		/* of the list */
};

/* All of a list or nothing of it is taken: engines go on meanwhile. */
static int sim_rates_set(const char *val, const struct kernel_param *kp)
{
	struct sim_rates *rates = kp->arg, new = {};
	char *copy = kstrdup(val, GFP_KERNEL), *rest = copy, *word;
	unsigned int i;
	int ret = copy ? 0 : -ENOMEM;

	while (!ret && (word = strsep(&rest, ","))) {
		if (new.nr == SIM_RATE_ENGINES)
			ret = -EINVAL;
		else
			ret = kstrtouint(word, 0, &new.values[new.nr++]);
	}
	kfree(copy);
	if (ret)
		return ret;
	for (i = 0; i < SIM_RATE_ENGINES; i++)
		WRITE_ONCE(rates->values[i], new.values[min(i, new.nr - 1)]);
	rates->nr = new.nr;
	return 0;
}

static int sim_rates_get(char *buf, const struct kernel_param *kp)
{
	const struct sim_rates *rates = kp->arg;
	unsigned int i;
	int len = 0;

	for (i = 0; i < rates->nr; i++)
		len += sysfs_emit_at(buf, len, "%u%c", rates->values[i],
				     i + 1 < rates->nr ? ',' : '\n');
	return len;
}

static const struct kernel_param_ops sim_rates_ops = {
	.set = sim_rates_set,
	.get = sim_rates_get,
};

static struct sim_rates dma_mbps = { .nr = 1 }, vram_mbps = { .nr = 1 }, peer_mbps = { .nr = 1 };
module_param_cb(dma_mbps, &sim_rates_ops, &dma_mbps, 0644);
MODULE_PARM_DESC(dma_mbps,
		 "MB/s (10^6 bytes) of each SDMA engine, the last one for all further, 0 = unlimited (default)");
module_param_cb(vram_mbps, &sim_rates_ops, &vram_mbps, 0644);
MODULE_PARM_DESC(vram_mbps, "the same within VRAM, 0 = as dma_mbps (default)");

module_param_cb(peer_mbps, &sim_rates_ops, &peer_mbps, 0644);
MODULE_PARM_DESC(peer_mbps, "the same from or to another GPU's VRAM, 0 = as dma_mbps (default)");

static unsigned int step_percent = 100;
module_param(step_percent, uint, 0644);
MODULE_PARM_DESC(step_percent, "time that steps of fill and increment take, of what they ask for");

static unsigned int submit_us;
module_param(submit_us, uint, 0644);
MODULE_PARM_DESC(submit_us, "us from a submission to its first packet, 0 = none (default)");

static u64 sim_ns(const struct sim_rates *rates, unsigned int engine, u64 bytes)
{
	u32 rate = READ_ONCE(rates->values[engine]);

	return rate ? mul_u64_u32_div(bytes, NSEC_PER_USEC, rate) : 0;
}

/* Time of the engine for so many bytes. */
u64 sim_rate_ns(unsigned int engine, enum sim_reach reach, u64 bytes)
{
	if (reach == SIM_REACH_VRAM && READ_ONCE(vram_mbps.values[engine]))
		return sim_ns(&vram_mbps, engine, bytes);
	if (reach == SIM_REACH_PEER && READ_ONCE(peer_mbps.values[engine]))
		return sim_ns(&peer_mbps, engine, bytes);
	return sim_ns(&dma_mbps, engine, bytes);
}

/* From a submission, or from noticing that a queue is not empty, to its beginning. */
u64 sim_submit_ns(void)
{
	return (u64)READ_ONCE(submit_us) * NSEC_PER_USEC;
}

/* Time of a step that asks for step_us. */
u64 sim_step_ns(u32 step_us)
{
	return mul_u64_u32_div(step_us * NSEC_PER_USEC, READ_ONCE(step_percent), 100);
}
