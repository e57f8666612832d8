/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What tells one kind of GPU from another. */
#ifndef SIM_CHIP_H
#define SIM_CHIP_H

#include "amdgpu.h"

struct kfd2kgd_calls;

/* Where the GPU sees VRAM, its own or that of its hive, in units of 16 MiB. */
#define SIM_FB		0x8000
/* Of the VRAM that GPUs of a hive see of each other, for each. */
#define SIM_HIVE_SEGMENT (64ULL << 30)

struct sim_chip {
	const char *name;
	enum amd_asic_type asic;
	u16 device;			/* of PCI; 0: any that the driver takes for asic */

	struct kfd2kgd_calls *calls;	/* what a hook of kfd_device.c gives KFD */
	const struct kfd2kgd_calls *drivers_calls;
	const struct amdgpu_ip_block_version *sdma;

	u32 mec_firmware;
	u32 shader_engines;		/* of an XCC; each has one array with one compute unit: ROCr allocates save areas for all */
	u32 waves_per_simd;
	u32 gb_addr_config;

	/* Versions and functions of the blocks, and where their registers are. */
	int (*blocks)(struct amdgpu_device *adev);
	/* Registers that must have a value before the driver reads them; fb_top: the last unit of VRAM. */
	void (*preset)(struct amdgpu_device *adev, u32 vram_mb, u32 fb_top);
	/* So many XCCs are a partition from now on; NULL: it has one. */
	void (*partition)(struct amdgpu_device *adev, u32 xccs);
};

extern const struct sim_chip sim_gfx906, sim_gfx90a, sim_gfx942;

/* chip.c */
const struct sim_chip *sim_chip(struct amdgpu_device *adev);
void sim_preset(struct amdgpu_device *adev, u32 reg, u32 value);
bool sim_in_hive(unsigned int gpu);
u32 sim_hive_place(struct amdgpu_device *adev);
void sim_sdma_engines(struct amdgpu_device *adev, u32 engines, u32 version);

/* gfx942_hive.c */
void sim_gfx942_hive(struct amdgpu_device *adev);

#endif
