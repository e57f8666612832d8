// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Translation of addresses. VMID 0 uses the frame buffer aperture and GART. Others use page tables; the driver has
 * written their root to the hub's registers.
 */
#include "sim.h"

#define SIM_ADDRESS	0x0000ffffffffffffULL
#define SIM_PTE_ADDRESS	0x0000fffffffff000ULL	/* of a page, in an entry */
#define SIM_FB_UNIT	0xffffffULL		/* bits that the end of the frame buffer does not have */
#define SIM_PDE_ADDRESS	0x0000ffffffffffc0ULL	/* of a table */

/* Memory of the machine by its physical address. Memory of VRAM has reserved pages. */
static bool sim_system(u64 address, struct sim_page *page)
{
	if (!pfn_valid(address >> PAGE_SHIFT) || PageReserved(pfn_to_page(address >> PAGE_SHIFT)))
		return false;
	page->at = phys_to_virt(address & PAGE_MASK);
	page->place = SIM_SYSTEM;
	return true;
}

/* offset: from the beginning of the GPU's own VRAM, or of the VRAM of its hive. */
static bool sim_vram(struct sim_gpu *g, u64 offset, struct sim_page *page)
{
	struct amdgpu_device *adev = g->adev;
	unsigned int i;

	if (offset < adev->gmc.real_vram_size && adev->mman.aper_base_kaddr) {
		page->at = (__force void *)adev->mman.aper_base_kaddr + (offset & PAGE_MASK);
		page->place = SIM_OWN_VRAM;
		return true;
	}
	for (i = 0; adev->gmc.xgmi.hive_id && i < SIM_GPUS; i++) {
		struct sim_gpu *peer = sim_gpu_at(i);
		u64 first;

		if (!peer || peer == g || peer->adev->gmc.xgmi.hive_id != adev->gmc.xgmi.hive_id)
			continue;
		first = (peer->adev->gmc.xgmi.physical_node_id - adev->gmc.xgmi.physical_node_id) *
			adev->gmc.xgmi.node_segment_size;
		if (offset - first >= peer->adev->gmc.real_vram_size)
			continue;
		page->at = (__force void *)peer->adev->mman.aper_base_kaddr + ((offset - first) & PAGE_MASK);
		page->place = SIM_PEER_VRAM;
		return true;
	}
	return false;
}

/* The page of VRAM or system memory at an address from a page table entry. */
static bool sim_entry_page(struct sim_gpu *g, u64 entry, u64 address, struct sim_page *page)
{
	if (entry & AMDGPU_PTE_SYSTEM)
		return sim_system(address, page);
	return sim_vram(g, address - g->adev->vm_manager.vram_base_offset, page);
}

static int sim_last_level(struct sim_gpu *g, u64 entry, u64 offset, struct sim_page *page)
{
	if (!(entry & AMDGPU_PTE_VALID) || !sim_entry_page(g, entry, (entry & SIM_PTE_ADDRESS) + offset, page))
		return -EFAULT;
	page->readable = entry & AMDGPU_PTE_READABLE;
	page->writeable = entry & AMDGPU_PTE_WRITEABLE;
	return 0;
}

static int sim_kernel_address(struct sim_gpu *g, u64 va, struct sim_page *page)
{
	struct amdgpu_gmc *mc = &g->adev->gmc;
	u64 entry;
	int r;

	page->readable = page->writeable = true;
	if (va >= mc->fb_start && va <= (mc->fb_end | SIM_FB_UNIT))
		return sim_vram(g, va - mc->vram_start, page) ? 0 : -EFAULT;
	if (va < mc->gart_start || va > mc->gart_end || !g->adev->gart.ptr)
		return -EFAULT;
	entry = readq((void __iomem *)g->adev->gart.ptr + ((va - mc->gart_start) >> PAGE_SHIFT) * 8);
	r = sim_last_level(g, entry, 0, page);
	page->readable = page->writeable = true;
	return r;
}

static u64 sim_root(struct sim_gpu *g, enum sim_hub hub, u32 vmid)
{
	const struct amdgpu_vmhub *h = sim_hub(g, hub);
	u32 reg = h->ctx0_ptb_addr_lo32 + h->ctx_addr_distance * vmid;

	return sim_register(g->adev, reg) | (u64)sim_register(g->adev, reg + 1) << 32;
}

/*
 * An entry above the last level is a table unless a bit makes it a page. With translate_further an entry of PDB0 is a
 * page unless a bit makes it a table (gmc_v9_0.c:gmc_v9_0_get_vm_pde @ 6.12.117).
 */
static bool sim_is_page(struct sim_gpu *g, int level, u64 entry)
{
	if (level == 2 && g->adev->gmc.translate_further)
		return !(entry & AMDGPU_PTE_TF);
	return level == 3 || (level && (entry & AMDGPU_PDE_PTE));
}

static int sim_walk(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, struct sim_page *page)
{
	static const u8 shift[] = { 39, 30, 21, 12 };
	u64 entry = sim_root(g, hub, vmid), table;
	int level;

	for (level = 0; level < 4; level++) {
		if (!(entry & AMDGPU_PTE_VALID))
			return -EFAULT;
		table = entry & SIM_PDE_ADDRESS;
		if (!sim_entry_page(g, entry, table, page))
			return -EFAULT;
		entry = READ_ONCE(((u64 *)(page->at + (table & ~PAGE_MASK)))[va >> shift[level] & 0x1ff]);
		if (sim_is_page(g, level, entry))
			return sim_last_level(g, entry, va & ((1ULL << shift[level]) - 1) & PAGE_MASK, page);
	}
	return -EFAULT;
}

/* Finds the page of va. Call it between sim_access_begin() and _end(). Returns 0 or -EFAULT. */
int sim_translate(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, struct sim_page *page)
{
	int r;

	va &= SIM_ADDRESS;
	if (sim_tlb_find(g, hub, vmid, va, page))
		return 0;
	r = vmid ? sim_walk(g, hub, vmid, va, page) : sim_kernel_address(g, va, page);
	if (!r)
		sim_tlb_fill(g, hub, vmid, va, page);
	return r;
}
