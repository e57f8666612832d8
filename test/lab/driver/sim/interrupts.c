// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Writes interrupt vectors into the ring of the real interrupt handler (vega20_ih.c), and raises the interrupt. */
#include <linux/irq.h>
#include <linux/irqdesc.h>

#include "sim.h"

#include "control.h"
#include "faults.h"
#include "soc15.h"
#include "soc15_ih_clientid.h"

/* Fields of a vector: amdgpu_ih.c:amdgpu_ih_decode_iv_helper @ 6.12.117. */
void sim_irq(struct sim_gpu *g, enum sim_hub hub, u32 client, u32 source, u32 ring, u32 vmid, const u32 *data)
{
	struct amdgpu_ih_ring *ih = &g->adev->irq.ih;
	u64 now = sim_clock();
	u32 *iv, i;

	if (!ih->ring || !g->adev->irq.installed)
		return;
	iv = (u32 *)ih->ring + (g->ih_wptr & ih->ptr_mask) / 4;
	iv[0] = client | source << 8 | ring << 16 | vmid << 24 | (client == SOC15_IH_CLIENTID_VMC ? 1u << 31 : 0);
	iv[1] = lower_32_bits(now);
	iv[2] = upper_32_bits(now) & 0xffff;
	iv[3] = sim_pasid(g, hub, vmid) | sim_ih_node(g, hub) << 16;
	for (i = 0; i < 4; i++)
		iv[4 + i] = data ? data[i] : 0;
	g->ih_wptr = (g->ih_wptr + 32) & ih->ptr_mask;
	smp_wmb();
	WRITE_ONCE(*ih->wptr_cpu, g->ih_wptr);
	if (!sim_fault_interrupt())
		generic_handle_irq_safe(g->adev->irq.irq);
}

/* Data of a page fault: gmc_v9_0.c:gmc_v9_0_process_interrupt @ 6.12.117. */
void sim_page_fault(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, bool write)
{
	u32 data[4] = { va >> 12, (va >> 44 & 0xf) | (write ? 0x20 : 0) };

	atomic64_inc(&sim_count.gpu_faults);
	sim_irq(g, hub, hub < SIM_MM ? SOC15_IH_CLIENTID_UTCL2 : SOC15_IH_CLIENTID_VMC, 0,
		0x08 | (write ? 0x20 : 0x10), vmid, data);
}
